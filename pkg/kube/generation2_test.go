package kube_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// startCore makes a cluster of TiDB Operator 2.x and waits until nothing changes in it.
func (l *lab) startCore(t *testing.T, opts kubetest.ClusterOptions) (kube.TidbCluster, []kube.Pod) {
	t.Helper()
	for _, o := range kubetest.NewCoreCluster(opts) {
		require.NoError(t, l.server.Put(o))
	}
	var read kube.TidbCluster
	var pods []kube.Pod
	require.Eventually(t, func() bool {
		now, err := l.client.Cluster(t.Context(), opts.Name)
		if err != nil {
			return false
		}
		of, err := l.client.TiKVPods(t.Context(), opts.Name)
		read, pods = now, of
		return err == nil && now.Unsteady == nil && len(now.PDAddresses) == 1 && len(of) == opts.TiKV && allReady(of)
	}, patience, 5*time.Millisecond)
	return read, pods
}

func allReady(pods []kube.Pod) bool {
	for _, p := range pods {
		if !p.Ready {
			return false
		}
	}
	return true
}

func TestGeneration2_SeveralGroups_StoresPodsAndVolumes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	read, pods := l.startCore(t, kubetest.ClusterOptions{
		Name: source("src"), TiKV: 3, TiKVGroups: 2, RaftLogVolume: true, WALVolume: true,
	})
	require.Equal(t, []int{1, 3, 1}, []int{read.PDReplicas, read.TiKVReplicas, read.TiDBReplicas})
	require.Equal(t, "v7.5.1", read.Version)
	require.Empty(t, read.Object)
	require.Len(t, read.Objects, 1+4+3, "the Cluster, its groups and its stores")
	require.Len(t, read.Stores, 3)
	names := map[string]bool{}
	for i, p := range pods {
		names[p.Name] = true
		require.Equal(t, i, p.Ordinal)
		require.NotEmpty(t, p.Instance)
		roles := map[cluster.Role]string{}
		for _, m := range p.Mounts {
			roles[m.Role] = m.MountPath
			require.NotEmpty(t, m.Volume)
		}
		require.Equal(t, map[cluster.Role]string{
			cluster.RoleData: "/var/lib/tikv", cluster.RoleRaftLog: "/var/lib/raft-log", cluster.RoleWAL: "/var/lib/wal",
		}, roles)
	}
	for id, pod := range read.Stores {
		require.True(t, names[pod], "store %s is in %s", id, pod)
	}
	all, err := l.client.Clusters(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []cluster.Name{source("src")}, all)
}

func TestGeneration2_TwoInANamespace_AreReadSeparately(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	for name, stores := range map[string]int{"src": 1, "other": 2} {
		for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source(name), TiKV: stores}) {
			require.NoError(t, l.server.Put(o))
		}
	}
	read, err := l.client.Cluster(t.Context(), source("src"))
	require.NoError(t, err)
	require.Equal(t, 1, read.TiKVReplicas)
	require.Len(t, read.Objects, 4)
	names, err := l.client.Clusters(t.Context(), "tidb")
	require.NoError(t, err)
	require.ElementsMatch(t, []cluster.Name{source("src"), source("other")}, names)
}

func TestGeneration2_Paused_IsReadAndUnsteady(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source("src"), TiKV: 1}) {
		if o.GetKind() == "Cluster" {
			o = withField(o, true, "spec", "paused")
		}
		require.NoError(t, l.server.Put(o))
	}
	read, err := l.client.Cluster(t.Context(), source("src"))
	require.NoError(t, err)
	pods, err := l.client.TiKVPods(t.Context(), source("src"))
	require.NoError(t, err)
	require.Empty(t, pods)
	require.Empty(t, read.PDAddresses)
	require.ErrorContains(t, read.Unsteady, "it is paused")
}

// Either Operator may be the only one.
func TestGenerations_OneInstalled_IsFoundAndTheOtherIsNotMissed(t *testing.T) {
	t.Parallel()
	for forgotten, have := range map[string][]*unstructured.Unstructured{
		"pingcap.com":      kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source("src"), TiKV: 1}),
		"core.pingcap.com": {kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), TiKV: 1})},
	} {
		t.Run(forgotten, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			for _, o := range have {
				require.NoError(t, l.server.Put(o))
			}
			l.server.ForgetGroup(forgotten)
			if forgotten == "core.pingcap.com" { // a role of an earlier version refuses it, installed or not
				l.server.Deny("get", "clusters")
				l.server.Deny("list", "clusters")
			}
			read, err := l.client.Cluster(t.Context(), source("src"))
			require.NoError(t, err)
			require.Equal(t, 1, read.TiKVReplicas)
			names, err := l.client.Clusters(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, []cluster.Name{source("src")}, names)
			_, err = l.client.Cluster(t.Context(), source("other"))
			require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), "src")
			for _, restore := range []bool{false, true} {
				missing, err := l.client.Missing(t.Context(), "tidb", restore)
				require.NoError(t, err)
				require.Empty(t, missing)
			}
			only := map[string]string{"pingcap.com": "2", "core.pingcap.com": "1"}[forgotten]
			for _, of := range []string{"1", "2"} {
				chosen, why, err := l.client.OperatorOf(t.Context(), source("new"), of)
				require.NoError(t, err)
				require.Equal(t, []string{only, "only that Operator is installed here"}, []string{chosen, why})
			}
			installed := map[string]string{"pingcap.com": `{"kind":"List"}`, "core.pingcap.com": `{"kind":"TidbCluster"}`}[forgotten]
			require.NoError(t, l.client.Allowed(t.Context(), "tidb", json.RawMessage(installed)))
		})
	}
}

// With both installed a target is of the source's, unless there is one of its name.
func TestGenerations_BothInstalled_OperatorOfATarget(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("one"), TiKV: 1})))
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source("two"), TiKV: 1}) {
		require.NoError(t, l.server.Put(o))
	}
	for _, of := range []string{"1", "2"} {
		for name, want := range map[string][]string{
			"new": {of, ""}, "one": {"1", "its cluster tidb/one exists"}, "two": {"2", "its cluster tidb/two exists"},
		} {
			chosen, why, err := l.client.OperatorOf(t.Context(), source(name), of)
			require.NoError(t, err)
			require.Equal(t, want, []string{chosen, why}, name)
		}
	}
	l.server.ForgetGroup("pingcap.com")
	l.server.Deny("get", "clusters")
	chosen, _, err := l.client.OperatorOf(t.Context(), source("new"), "1")
	require.NoError(t, err)
	require.Equal(t, "2", chosen, "it is installed, though it may not be read")
	l.server.ForgetGroup("core.pingcap.com")
	chosen, _, err = l.client.OperatorOf(t.Context(), source("new"), "1")
	require.NoError(t, err)
	require.Equal(t, "1", chosen, "the preflight then finds that neither is")
}

func TestGenerations_NoneInstalled_IsUnready(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	l.server.ForgetGroup("pingcap.com")
	l.server.ForgetGroup("core.pingcap.com")
	_, err := l.client.Cluster(t.Context(), source("src"))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "install TiDB Operator")
	_, err = l.client.Clusters(t.Context(), "")
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
}

func TestGenerations_OneNameInBoth_IsRefused(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	opts := kubetest.ClusterOptions{Name: source("src"), TiKV: 1}
	for _, o := range append(kubetest.NewCoreCluster(opts), kubetest.NewTidbCluster(opts)) {
		require.NoError(t, l.server.Put(o))
	}
	_, err := l.client.Cluster(t.Context(), source("src"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "both a TidbCluster and a Cluster have this name")
	require.Contains(t, failure.HintOf(err), "delete the one without pods")
	_, err = l.client.TiKVPods(t.Context(), source("src"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
}

// A role of an earlier version is enough for clusters of TiDB Operator 1.x, and costs them no time.
func TestGenerations_RoleWithoutOperator2(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("src"), TiKV: 1})))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, l.server.WriteKubeconfig(path))
	client, err := kube.Open(kube.Config{Kubeconfig: path, Patience: time.Hour})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for _, verb := range []string{"get", "list"} {
		l.server.Deny(verb, "clusters")
	}
	_, err = client.Cluster(t.Context(), source("src"))
	require.NoError(t, err)
	names, err := client.Clusters(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []cluster.Name{source("src")}, names)

	_, err = l.client.Cluster(t.Context(), source("new"))
	require.Equal(t, failure.Denied, failure.KindOf(err), "it may be one of 2.x: %v", err)
	require.ErrorContains(t, err, `"clusters"`)
	missing, err := l.client.Missing(t.Context(), "tidb", false)
	require.NoError(t, err)
	require.Equal(t, []string{"get clusters.core.pingcap.com"}, missing)
}
