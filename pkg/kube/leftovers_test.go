package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func leftover(t *testing.T, l *lab) kube.RestoreLeftover {
	t.Helper()
	found, err := l.client.Leftover(t.Context(), source("dst"), run)
	require.NoError(t, err)
	return found
}

func TestLeftover_OfAKilledRestore_IsFoundAndDeletedAndItsEBSVolumesStay(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.True(t, leftover(t, l).Empty())
	bound(t, l)
	found := leftover(t, l)
	require.NotEmpty(t, found.UID)
	require.Empty(t, found.Serves)
	require.Len(t, found.Claims, 3)
	require.Len(t, found.Volumes, 3)
	require.NotEmpty(t, found.Handles)
	another, err := l.client.Leftover(t.Context(), source("dst"), "another")
	require.NoError(t, err)
	require.True(t, another.Empty(), "of another run")

	require.NoError(t, l.client.DeleteLeftover(t.Context(), found))
	require.True(t, leftover(t, l).Empty())
	require.Empty(t, l.server.List("persistentvolumes", ""))
	require.NoError(t, l.client.DeleteLeftover(t.Context(), found), "it may be called again")
}

// The TidbCluster went by hand: what it does not own stays, and is found.
func TestLeftover_WithoutItsTidbCluster_IsFoundAndDeleted(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "dst")))
	found := leftover(t, l)
	require.Empty(t, found.UID)
	require.Len(t, found.Claims, 3)
	require.NoError(t, l.client.DeleteLeftover(t.Context(), found))
	require.True(t, leftover(t, l).Empty())
}

// A resolve took the cluster out of recovery mode, or TiDB runs, or someone made it again: it stays, whole.
func TestDeleteLeftover_ClusterThatServes_Stays(t *testing.T) {
	t.Parallel()
	set := func(value any, path ...string) func(*testing.T, *lab) {
		return func(t *testing.T, l *lab) {
			t.Helper()
			require.NoError(t, l.server.Put(withField(l.server.Get("tidbclusters", "tidb", "dst"), value, path...)))
		}
	}
	for name, row := range map[string]struct {
		change func(*testing.T, *lab)
		serves bool
	}{
		"it left recovery mode": {set(false, "spec", "recoveryMode"), true},
		"TiDB runs":             {set(map[string]any{"dst-tidb-0": map[string]any{"health": true}}, "status", "tidb", "members"), true},
		"it was made again": {func(t *testing.T, l *lab) {
			o := l.server.Get("tidbclusters", "tidb", "dst")
			require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "dst")))
			o.SetUID("")
			o.SetResourceVersion("")
			require.NoError(t, l.server.Put(o))
		}, false},
		"someone else's, of the name, lets TiKV start": {func(t *testing.T, l *lab) {
			o := l.server.Get("tidbclusters", "tidb", "dst")
			require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "dst")))
			o.SetUID("")
			o.SetResourceVersion("")
			o.SetAnnotations(map[string]string{"tidb.pingcap.com/tikv-volumes-ready": "true"})
			require.NoError(t, l.server.Put(o))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			bound(t, l)
			found := leftover(t, l)
			row.change(t, l)
			require.Equal(t, row.serves, leftover(t, l).Serves != "")
			err := l.client.DeleteLeftover(t.Context(), found)
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.NotNil(t, l.server.Get("tidbclusters", "tidb", "dst"))
			require.Len(t, l.server.List("persistentvolumeclaims", "tidb"), 3)
			require.Len(t, l.server.List("persistentvolumes", ""), 3)
		})
	}
}

// It leaves recovery mode between the check and the deletion.
func TestDeleteLeftover_ServesAtTheLastMoment_Stays(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	found := leftover(t, l)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.tidbclusters", Position: fault.Slow, Do: func() {
		_ = l.server.Put(withField(l.server.Get("tidbclusters", "tidb", "dst"), false, "spec", "recoveryMode"))
	}}))
	err := l.client.DeleteLeftover(t.Context(), found)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it serves")
	require.NotNil(t, l.server.Get("tidbclusters", "tidb", "dst"))
	require.Len(t, l.server.List("persistentvolumes", ""), 3)
}

func TestLeftover_RunNotNamed_IsUsage(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	_, err := l.client.Leftover(t.Context(), source("dst"), "")
	require.Equal(t, failure.Usage, failure.KindOf(err))
	require.Equal(t, failure.Usage, failure.KindOf(l.client.DeleteLeftover(t.Context(), kube.RestoreLeftover{Cluster: cluster.Name{Namespace: "tidb", Name: "dst"}})))
}

// PD's volume is the one that Kubernetes made for the target; those that the run made, and other clusters', are not.
func TestMadeForTarget_VolumeOfPD_AloneIsListed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.start(t, kubetest.ClusterOptions{Name: source("src"), TiKV: 1})
	l.awaitReady(t, from, 1)
	require.NoError(t, l.client.CreateCluster(t.Context(), oneStore(t), kube.Target{Name: source("dst"), Run: run}))
	for _, name := range []string{"src", "dst"} {
		l.provision(t, name)
	}
	ids, err := l.client.MadeForTarget(t.Context(), source("dst"), run)
	require.NoError(t, err)
	require.Equal(t, []cluster.VolumeID{"vol-0dst"}, ids)
	_, err = l.client.MadeForTarget(t.Context(), source("src"), run)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "not the run's")
}

// An earlier version took the cluster and its claims away while the StatefulSets lived: what these made again carries no run.
func TestLeftover_MadeAgainWithoutARun_IsShownOnceTheClusterIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.awaitReady(t, l.start(t, kubetest.ClusterOptions{Name: source("src"), TiKV: 1}), 1)
	require.NoError(t, l.client.CreateCluster(t.Context(), oneStore(t), kube.Target{Name: source("dst"), Run: run}))
	l.provision(t, "dst")
	require.Empty(t, leftover(t, l).Strays, "its cluster is there")
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "dst")))
	found := leftover(t, l)
	require.Equal(t, []kube.Stray{{Claim: "pd-dst-pd-0", Volume: "pvc-dst", Handle: "vol-0dst"}}, found.Strays)
	require.Equal(t, "pvc-dst", found.Bound["pd-dst-pd-0"])
	require.Contains(t, found.Bound, "tikv-src-tikv-0", "all of the namespace")
	require.True(t, found.Empty())
	require.NoError(t, l.client.DeleteLeftover(t.Context(), found))
	require.NotNil(t, l.server.Get("persistentvolumeclaims", "tidb", "pd-dst-pd-0"), "whose it is, is not certain")
	require.NoError(t, l.server.Remove(l.server.Get("persistentvolumeclaims", "tidb", "pd-dst-pd-0")))
	require.Equal(t, []kube.Stray{{Volume: "pvc-dst", Handle: "vol-0dst"}}, leftover(t, l).Strays)
	require.NotContains(t, leftover(t, l).Bound, "pd-dst-pd-0")
}
