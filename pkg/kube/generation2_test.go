package kube_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
		found, now, of, err := l.client.Read2(t.Context(), opts.Name)
		read, pods = now, of
		return err == nil && found && now.Unsteady == nil && len(now.PDAddresses) == 1 && len(of) == opts.TiKV && allReady(of)
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
	all, err := l.client.Names2(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, []cluster.Name{source("src")}, all)
}

func TestGeneration2_TwoInANamespace_AreToldApart(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	for name, stores := range map[string]int{"src": 1, "other": 2} {
		for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source(name), TiKV: stores}) {
			require.NoError(t, l.server.Put(o))
		}
	}
	_, read, _, err := l.client.Read2(t.Context(), source("src"))
	require.NoError(t, err)
	require.Equal(t, 1, read.TiKVReplicas)
	require.Len(t, read.Objects, 4)
	names, err := l.client.Names2(t.Context(), "tidb")
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
	found, read, pods, err := l.client.Read2(t.Context(), source("src"))
	require.NoError(t, err)
	require.True(t, found)
	require.Empty(t, pods)
	require.Empty(t, read.PDAddresses)
	require.ErrorContains(t, read.Unsteady, "it is paused")
}

func TestGeneration2_NoneThere_IsNoError(t *testing.T) { //nolint:tparallel // the cases follow each other
	t.Parallel()
	l := newServer(t)
	for _, row := range []string{"no such cluster", "no definitions"} {
		t.Run(row, func(t *testing.T) {
			if row == "no definitions" {
				l.server.ForgetGroup("core.pingcap.com")
			}
			found, _, _, err := l.client.Read2(t.Context(), source("src"))
			require.NoError(t, err)
			require.False(t, found)
			names, err := l.client.Names2(t.Context(), "tidb")
			require.NoError(t, err)
			require.Empty(t, names)
		})
	}
}

func TestGeneration2_MayNotRead_IsDenied(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	l.server.Deny("get", "clusters")
	_, _, _, err := l.client.Read2(t.Context(), source("src"))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
}
