package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

func TestAllowed_OneVerbMissing_NamesIt(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.client.Allowed(t.Context(), "tidb", nil))
	for _, p := range [][2]string{{"create", "persistentvolumes"}, {"update", "tidbclusters"}, {"delete", "pods"}, {"get", "nodes"}} {
		t.Run(p[0]+" "+p[1], func(t *testing.T) { // one after the other: they share the server
			l.server.Deny(p[0], p[1])
			defer l.server.Allow(p[0], p[1])
			err := l.client.Allowed(t.Context(), "tidb", nil)
			assert.Equal(t, failure.Denied, failure.KindOf(err))
			assert.ErrorContains(t, err, p[0]+" "+p[1])
		})
	}
	assert.Empty(t, l.server.MutatingCalls())
}

// Port forwards need one permission more, and only where they are needed.
func TestAllowed_PortForwards(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	l.server.Deny("create", "pods/portforward")
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, l.server.WriteKubeconfig(path))
	for forwards, want := range map[bool]failure.Kind{true: failure.Denied, false: failure.Unknown} {
		t.Run(fmt.Sprint(forwards), func(t *testing.T) {
			t.Parallel()
			client, err := kube.Open(kube.Config{Kubeconfig: path, Patience: 100 * time.Millisecond, Forwards: func(context.Context) bool { return forwards }})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			err = client.Allowed(t.Context(), "tidb", nil)
			require.Equal(t, forwards, err != nil, "%v", err)
			assert.Equal(t, want, failure.KindOf(err))
			if forwards {
				assert.ErrorContains(t, err, "may not create pods/portforward in namespace tidb")
			}
		})
	}
}

// Every call of a whole restore has to be in the list that Allowed asks for, and everything in that list is used.
func TestAllowed_WholeRestore_UsesAllOfItAndNothingElse(t *testing.T) {
	t.Parallel()
	l := newLabWith(t, kubetest.OperatorConfig{Collect: 24 * time.Hour}) // or its StatefulSets may be gone before they are deleted
	target := source("dst")
	volume := recordedVolume(t, target)
	asked := map[string]bool{}
	for _, p := range kube.Permissions(nil) {
		asked[p] = true
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		for _, resource := range []string{"tidbclusters", "pods", "persistentvolumes", "persistentvolumeclaims", "nodes", "statefulsets"} {
			if !asked[verb+" "+resource] {
				l.server.Deny(verb, resource)
			}
		}
	}
	l.server.Deny("list", "events") // wanted for reasons, but not needed
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	_, err := l.client.Cluster(t.Context(), target)
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	to := kube.Target{Name: target, Run: run}
	require.NoError(t, l.client.DryRun(t.Context(), oneStore(t), to, []kube.RestoredVolume{volume}, false))
	require.NoError(t, l.client.CreateCluster(t.Context(), oneStore(t), to))
	l.disks.Add(volume.Volume, volume.Zone, true)
	require.NoError(t, l.client.BindVolume(t.Context(), volume))
	require.NoError(t, l.client.BindVolume(t.Context(), volume), "again")
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	l.awaitReady(t, target, 1)
	require.NoError(t, l.client.LeaveRecovery(t.Context(), target))
	require.NoError(t, l.client.StartTiDB(t.Context(), target))
	l.awaitUp(t, target, 1)
	tc := l.server.Get("tidbclusters", "tidb", "dst")
	require.NoError(t, l.server.Put(withField(tc, "Delete", "spec", "pvReclaimPolicy")))
	require.Eventually(t, func() bool { // the Operator sets it, and would set any other one back
		policy, _, _ := unstructured.NestedString(l.server.List("persistentvolumes", "")[0].Object, "spec", "persistentVolumeReclaimPolicy")
		return policy == "Delete"
	}, 30*time.Second, time.Millisecond)
	claim := l.server.Get("persistentvolumeclaims", "tidb", "tikv-dst-tikv-0")
	claim.SetAnnotations(nil) // as of one that a StatefulSet made
	require.NoError(t, l.server.Put(claim))
	tc = l.server.Get("tidbclusters", "tidb", "dst")
	require.NoError(t, l.server.Put(withField(tc, int64(0), "spec", "tidb", "replicas"))) // or it serves, and stays
	require.Eventually(t, func() bool {
		members, _, _ := unstructured.NestedMap(l.server.Get("tidbclusters", "tidb", "dst").Object, "status", "tidb", "members")
		return len(members) == 0
	}, 30*time.Second, time.Millisecond)
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, true))
	for p := range asked {
		verb, resource, _ := strings.Cut(p, " ")
		assert.NotZero(t, l.faults.Calls("kube."+verb+"."+resource), "%s is asked for and never used", p)
	}
}

func oneStore(t *testing.T) json.RawMessage {
	t.Helper()
	b, err := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), TiKV: 1}).MarshalJSON()
	require.NoError(t, err)
	return b
}
