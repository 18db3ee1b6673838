package kube_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func sourceObject(t *testing.T) json.RawMessage {
	t.Helper()
	b, err := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src")}).MarshalJSON()
	require.NoError(t, err)
	return b
}

// recordedVolume is a volume to bind, from recorded objects.
func recordedVolume(t *testing.T, target cluster.Name) kube.RestoredVolume {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "clustermeta.json"))
	require.NoError(t, err)
	var doc struct {
		Kubernetes struct{ PVCs, PVs []json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(b, &doc))
	return kube.RestoredVolume{
		Cluster: target, Run: run, Role: cluster.RoleData, MountPath: "/var/lib/tikv", Volume: "vol-0new",
		Zone: "us-west-2b", SizeGiB: 10, Claim: doc.Kubernetes.PVCs[0], Object: doc.Kubernetes.PVs[0],
	}
}

func TestWrites_AnswerLost_SucceedWhenRunAgain(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	volume := recordedVolume(t, target)
	for _, c := range []struct {
		name  string
		point string
		write func(context.Context) error
	}{
		{"create cluster", "kube.create.tidbclusters", func(ctx context.Context) error {
			return l.client.CreateCluster(ctx, sourceObject(t), kube.Target{Name: target, Run: run})
		}},
		{"create volume", "kube.create.persistentvolumes", func(ctx context.Context) error { return l.client.BindVolume(ctx, volume) }},
		{"create claim", "kube.create.persistentvolumeclaims", func(ctx context.Context) error { return l.client.BindVolume(ctx, volume) }},
		{"start TiKV", "kube.update.tidbclusters", func(ctx context.Context) error { return l.client.StartTiKV(ctx, target) }},
		{"leave recovery mode", "kube.update.tidbclusters", func(ctx context.Context) error { return l.client.LeaveRecovery(ctx, target) }},
		{"start TiDB", "kube.update.tidbclusters", func(ctx context.Context) error { return l.client.StartTiDB(ctx, target) }},
	} {
		t.Run(c.name, func(t *testing.T) { // in this order: each builds on the one before
			require.NoError(t, l.faults.Add(fault.Rule{Point: c.point, Position: fault.After}))
			err := c.write(t.Context())
			require.Error(t, err)
			assert.Equal(t, failure.Unknown, failure.KindOf(err))
			assert.Empty(t, l.faults.Unreached())
			require.NoError(t, c.write(t.Context()))
		})
	}
}

func TestDeleteCluster_Interrupted_IsFinishedWhenRunAgain(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run}))
	require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, target)))
	pd := l.server.Get("persistentvolumeclaims", "tidb", "tikv-dst-tikv-0") // as a StatefulSet would make one for PD
	pd.SetName("pd-dst-pd-0")
	pd.SetAnnotations(nil)
	pd.SetLabels(map[string]string{"app.kubernetes.io/instance": "dst"})
	require.NoError(t, l.server.Put(pd))
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.tidbclusters", Position: fault.After, Do: cancel}))
	require.Error(t, l.client.DeleteCluster(ctx, target, run, false))
	require.Eventually(t, func() bool { return l.server.Get("tidbclusters", "tidb", "dst") == nil }, patience, time.Millisecond)
	assert.Nil(t, l.server.Get("tidbclusters", "tidb", "dst"))
	assert.Len(t, l.server.List("persistentvolumeclaims", ""), 2)
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	assert.Empty(t, l.server.List("persistentvolumes", ""))
	assert.Empty(t, l.server.List("persistentvolumeclaims", ""))
}

func TestWrites_RefusedBefore_ChangeNothing(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	for code, want := range map[string]failure.Kind{
		"ServiceUnavailable": failure.Limited, "TooManyRequests": failure.Limited, "": failure.Unknown,
	} {
		t.Run(code, func(t *testing.T) { // one after the other: they share the server
			defer l.faults.Clear()
			require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.*", Position: fault.Before, Code: code}))
			assert.Equal(t, want, failure.KindOf(l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run})))
		})
	}
	assert.Nil(t, l.server.Get("tidbclusters", "tidb", "dst"))
}

func TestCreateCluster_MadeByAnother_IsAConflict(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run}))
	before := l.server.MutatingCalls()
	err := l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: "other"})
	assert.Equal(t, failure.Conflict, failure.KindOf(err))
	assert.ErrorContains(t, err, "run "+string(run))

	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("hand")})))
	err = l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("hand"), Run: run})
	assert.Equal(t, failure.Conflict, failure.KindOf(err))
	assert.Equal(t, failure.Conflict, failure.KindOf(l.client.DeleteCluster(t.Context(), source("hand"), run, false)))
	assert.Equal(t, before, l.server.MutatingCalls(), "nothing was written")
}

func TestCreateCluster_ClaimsLeftBehind_IsAConflict(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, source("dst"))))
	err := l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("dst"), Run: "next"})
	assert.Equal(t, failure.Conflict, failure.KindOf(err))
	assert.ErrorContains(t, err, "tikv-dst-tikv-0")
}

func TestBindVolume_NameTaken_IsAConflict(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	volume := recordedVolume(t, source("dst"))
	require.NoError(t, l.client.BindVolume(t.Context(), volume))
	require.NoError(t, l.client.BindVolume(t.Context(), volume))
	other := volume
	other.Run = "other"
	assert.Equal(t, failure.Conflict, failure.KindOf(l.client.BindVolume(t.Context(), other)), "claim of another run")
	swapped := volume
	swapped.Volume = "vol-0other"
	assert.Equal(t, failure.Conflict, failure.KindOf(l.client.BindVolume(t.Context(), swapped)), "another volume under the same name")
}

// The volume may take long to be Available: another run may have the target by then.
func TestBindVolume_LockLostWhileTheVolumeIsMade_MakesNoClaim(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	volume := recordedVolume(t, source("dst"))
	ctx := fenced.With(t.Context(), func(context.Context) error {
		if len(l.server.List("persistentvolumes", "")) == 0 {
			return nil
		}
		return failure.New(failure.Conflict, "check lock", "tidb/dst", "taken over by run second")
	})
	require.Equal(t, failure.Conflict, failure.KindOf(l.client.BindVolume(ctx, volume)))
	require.NotEmpty(t, l.server.List("persistentvolumes", ""))
	require.Empty(t, l.server.List("persistentvolumeclaims", ""))
}

// The real binder leaves a claim Pending until its next sync, 15 s later, if its volume is not Available yet.
func TestBindVolume_Claim_IsMadeOnceItsVolumeIsAvailable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var phase string
	var calls []string
	l.faults.Watch(func(point string) *fault.Rule {
		calls = append(calls, point) // of one call after the other
		return nil
	})
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.persistentvolumeclaims", Position: fault.Slow, Do: func() {
		for _, pv := range l.server.List("persistentvolumes", "") {
			phase, _, _ = unstructured.NestedString(pv.Object, "status", "phase")
		}
	}}))
	require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, source("dst"))))
	made, claimed := slices.Index(calls, "kube.create.persistentvolumes"), slices.Index(calls, "kube.create.persistentvolumeclaims")
	require.Contains(t, calls[made:claimed], "kube.get.persistentvolumes", "it looks, however soon the volume is available")
	require.Eventually(t, func() bool {
		phase, _, _ := unstructured.NestedString(l.server.Get("persistentvolumeclaims", "tidb", "tikv-dst-tikv-0").Object, "status", "phase")
		return phase == "Bound"
	}, patience, 5*time.Millisecond)
	require.Equal(t, "Available", phase)
}

func TestBindVolume_ReleasedOfOwnRun_IsMadeBindableAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	volume := recordedVolume(t, source("dst"))
	bound := func() bool {
		list := l.server.List("persistentvolumeclaims", "tidb")
		if len(list) != 1 {
			return false
		}
		status, _ := list[0].Object["status"].(map[string]any)
		return status["phase"] == "Bound"
	}
	require.NoError(t, l.client.BindVolume(t.Context(), volume))
	require.Eventually(t, bound, patience, 5*time.Millisecond)
	claim := l.server.Get("persistentvolumeclaims", "tidb", "tikv-dst-tikv-0")
	require.NoError(t, l.server.Remove(claim))
	require.Eventually(t, func() bool {
		list := l.server.List("persistentvolumes", "")
		status, _ := list[0].Object["status"].(map[string]any)
		return status["phase"] == "Released"
	}, patience, 5*time.Millisecond)
	require.NoError(t, l.client.BindVolume(t.Context(), volume))
	require.Eventually(t, bound, patience, 5*time.Millisecond)
}

func TestCluster_ServerStalls_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.get.*", Position: fault.Stall, Times: -1}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.client.Cluster(ctx, source("src"))
	assert.Equal(t, failure.Limited, failure.KindOf(err))
}

func TestCluster_Missing_HintListsThoseThatExist(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	_, err := l.client.Cluster(t.Context(), source("src"))
	assert.Equal(t, failure.NotFound, failure.KindOf(err))
	assert.Contains(t, failure.HintOf(err), "no cluster")
	for _, n := range []string{"b", "a"} {
		require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source(n)})))
	}
	for _, call := range []func() error{
		func() error { _, err := l.client.Cluster(t.Context(), source("src")); return err },
		func() error { _, err := l.client.TiKVPods(t.Context(), source("src")); return err },
		func() error { return l.client.StartTiKV(t.Context(), source("src")) },
	} {
		err := call()
		assert.Equal(t, failure.NotFound, failure.KindOf(err))
		assert.Contains(t, failure.HintOf(err), "a, b")
	}
}

func TestUpdateCluster_ConflictOnce_TriesAgain(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src")})))
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.update.tidbclusters", Position: fault.Before, Code: "Conflict", Times: 2}))
	require.NoError(t, l.client.StartTiKV(t.Context(), source("src")))
	assert.Equal(t, "true", l.server.Get("tidbclusters", "tidb", "src").GetAnnotations()["tidb.pingcap.com/tikv-volumes-ready"])
}

func TestOpen_Kubeconfig_IsReadByKubectlsRules(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	assert.Equal(t, "tidb", l.client.Namespace())
	_, err := kube.Open(kube.Config{Kubeconfig: filepath.Join(t.TempDir(), "none")})
	assert.Equal(t, failure.Usage, failure.KindOf(err))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, l.server.WriteKubeconfig(path))
	_, err = kube.Open(kube.Config{Kubeconfig: path, Context: "none"})
	assert.Equal(t, failure.Usage, failure.KindOf(err))
	client, err := kube.Open(kube.Config{Kubeconfig: path, Namespace: "prod"})
	require.NoError(t, err)
	assert.Equal(t, "prod", client.Namespace())
}

// A command that needs no Kubernetes reads a name as the others do, and never as one of "default" for want of a namespace.
func TestNamespace_IsThatOfAnOpenedClient(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	path, empty := filepath.Join(t.TempDir(), "kubeconfig"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, l.server.WriteKubeconfig(path))
	require.NoError(t, os.WriteFile(empty, []byte("apiVersion: v1\nkind: Config\n"), 0o600))
	for name, c := range map[string]struct {
		cfg  kube.Config
		want string
	}{
		"the context's":      {kube.Config{Kubeconfig: path}, "tidb"},
		"another":            {kube.Config{Kubeconfig: path, Namespace: "prod"}, "prod"},
		"no such context":    {kube.Config{Kubeconfig: path, Context: "none"}, ""},
		"no such kubeconfig": {kube.Config{Kubeconfig: path + "-none"}, ""},
		"nothing in it":      {kube.Config{Kubeconfig: empty}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace, err := kube.Namespace(c.cfg)
			assert.Equal(t, c.want, namespace)
			client, openErr := kube.Open(c.cfg)
			if c.want == "" {
				assert.Equal(t, failure.Usage, failure.KindOf(err))
				assert.Equal(t, openErr, err)
				return
			}
			require.NoError(t, openErr)
			require.NoError(t, err)
			assert.Equal(t, client.Namespace(), namespace)
		})
	}
}
