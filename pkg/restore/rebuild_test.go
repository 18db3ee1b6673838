package restore_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// earlyStore is the first store that is asked for a raft state: of that region it reports that it has applied more than its log has.
type earlyStore struct {
	restore.TiKV
	mu      sync.Mutex
	address string
	region  cluster.RegionID
}

func (e *earlyStore) RaftState(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error) {
	state, err := e.TiKV.RaftState(ctx, address, region)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.address == "" && err == nil {
		e.address, e.region = address, region
	}
	if address == e.address && region == e.region {
		state.Applied = state.Last + 3
	}
	return state, err
}

// removals is a PD whose orders to remove a peer are seen before they are given.
type removals struct {
	restore.PD
	seen func(region cluster.RegionID, store cluster.StoreID)
}

func (r *removals) RemovePeer(ctx context.Context, region cluster.RegionID, store cluster.StoreID) error {
	r.seen(region, store)
	return r.PD.RemovePeer(ctx, region, store)
}

// early makes one replica of the backup ahead of the log, really so from the moment in which it is to be removed.
func (l *lab) early(deps *restore.Deps, seen func(region cluster.RegionID, store cluster.StoreID)) *earlyStore {
	e := &earlyStore{TiKV: deps.TiKV}
	deps.TiKV = e
	open := deps.OpenPD
	deps.OpenPD = func(ctx context.Context, addresses []string) (restore.PD, error) {
		p, err := open(ctx, addresses)
		return &removals{PD: p, seen: func(region cluster.RegionID, store cluster.StoreID) {
			for _, s := range l.bed.Nodes.Cluster(target()).Stores() {
				if s.ID() == uint64(store) {
					s.Diverge(uint64(region))
				}
			}
			seen(region, store)
		}}, err
	}
	return e
}

// equalReplicas waits until the stores' own data of all regions are equal, whoever leads.
func (l *lab) equalReplicas(t *testing.T) {
	t.Helper()
	stores := l.bed.Nodes.Cluster(target()).Stores()
	require.Len(t, stores, 3)
	require.Eventually(t, func() bool { return sameReplicas(stores) }, patience, 20*time.Millisecond, "the replicas are not equal")
}

func sameReplicas(stores []*tikvtest.Store) bool {
	first := stores[0].Replicas()
	for _, s := range stores[1:] {
		own := s.Replicas()
		if len(own) != len(first) {
			return false
		}
		for i := range own {
			if own[i] != first[i] {
				return false
			}
		}
	}
	return len(first) > 0
}

// tidbReplicas is how many servers of TiDB the target is to have.
func (l *lab) tidbReplicas(t *testing.T) int {
	t.Helper()
	tc, err := l.kube.Cluster(within(t), target())
	require.NoError(t, err)
	return tc.TiDBReplicas
}

// The one replica is rebuilt while no TiDB runs; then every store's own data are the same.
// Catalogue: G16.
func TestRestore_ReplicaAheadOfTheLog_IsRebuiltBeforeTiDBStarts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	deps, opts := l.next(t, nil)
	type place struct {
		region cluster.RegionID
		store  cluster.StoreID
	}
	removed := map[place]int{}
	e := l.early(&deps, func(region cluster.RegionID, store cluster.StoreID) {
		removed[place{region, store}] = l.tidbReplicas(t)
	})
	result, err := restore.Run(within(t), deps, opts)
	require.NoError(t, err)
	require.Equal(t, 1, result.Resolve.Ahead)
	require.Equal(t, 1, result.Resolve.Rebuilt)
	require.Len(t, removed, 1)
	for at, tidb := range removed {
		require.Equal(t, e.region, at.region)
		require.Zero(t, tidb, "no TiDB may see the cluster yet")
	}
	require.Equal(t, 1, l.tidbReplicas(t))
	l.equalReplicas(t)
}

// The process dies while the replica is rebuilt: the cluster has no TiDB, and a resolve finishes it by what was written down.
// Catalogue: G16.
func TestRestore_KilledWhileItRebuilds_IsFinishedByAResolve(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	deps, opts := l.next(t, nil)
	opts.KeepOnFailure = true
	ctx, kill := context.WithCancel(within(t))
	defer kill()
	l.early(&deps, func(cluster.RegionID, cluster.StoreID) { kill() })
	_, err := restore.Run(ctx, deps, opts)
	require.Error(t, err)
	require.Zero(t, l.tidbReplicas(t), "TiDB waits until all replicas are rebuilt")
	result, err := l.resolve(within(t), t)
	require.NoError(t, err)
	require.True(t, result.Restored)
	require.Equal(t, 1, result.Resolve.Rebuilt)
	require.Equal(t, 1, l.tidbReplicas(t))
	l.equalReplicas(t)
}

// Who starts TiDB by himself after the data cannot wait for a rebuild.
// Catalogue: G16.
func TestResolveData_ReplicaAheadOfTheLog_IsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	h := newHandedOver(t)
	result, err := h.prepare(t, nil)
	require.NoError(t, err)
	h.bind(t, result)
	deps, opts := h.deps(t)
	h.early(&deps, func(cluster.RegionID, cluster.StoreID) { t.Error("nothing is to be removed") })
	_, err = restore.ResolveData(within(t), deps, opts)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "1 replicas have data that no log of the backup has")
	require.Contains(t, failure.HintOf(err), "tisnap restore b --to CLUSTER")
	require.True(t, h.pd.PD.Recovering(), "the mark stays")
}

// A process died while it resolved the data, and which replicas were ahead cannot be found any
// more: it was an older version's, or what it wrote down is damaged. The run begins again, with volumes that have them as they were at the backup.
// Catalogue: G16.
func TestRestore_ResumesOneThatHasNotLooked_OntoFreshVolumes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, l *lab, opts restore.Options){
		"an older version": func(t *testing.T, l *lab, opts restore.Options) {
			t.Helper()
			progress := resolve.NewProgressFile(l.store, opts.Target, opts.Backup)
			p, found, err := progress.Load(t.Context())
			require.NoError(t, err)
			require.True(t, found)
			require.NotNil(t, p.EarlyApply)
			p.EarlyApply = nil
			require.NoError(t, progress.Save(t.Context(), p))
		},
		"damaged": func(t *testing.T, l *lab, opts restore.Options) {
			t.Helper()
			key := manifest.ResolveKey(opts.Target, opts.Backup)
			_, version, err := l.store.Get(t.Context(), key)
			require.NoError(t, err)
			_, err = l.store.Replace(t.Context(), key, []byte("{"), version)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			startsOver(t, change)
		})
	}
}

func startsOver(t *testing.T, change func(t *testing.T, l *lab, opts restore.Options)) {
	t.Helper()
	l := newLab(t)
	deps, opts := l.next(t, nil)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var written []objstore.Object // when it died
	deps.Sink = &cancelAt{step: "prepare", cancel: func() {
		lock, _, err := runlock.Read(ctx, l.store, target())
		require.NoError(t, err)
		require.NoError(t, runlock.Break(ctx, l.store, target(), lock.Epoch), "so that it undoes nothing")
		written, err = l.store.List(ctx, manifest.JournalPrefix(opts.Run))
		require.NoError(t, err)
		cancel()
	}}
	_, err := restore.Run(ctx, deps, opts)
	require.ErrorIs(t, err, context.Canceled)
	l.forgetJournal(t, opts.Run, written)
	first := l.volumes()
	require.Len(t, first, 6)
	change(t, l, opts)

	deps.Sink = nil
	result, err := restore.Run(within(t), deps, opts)
	require.NoError(t, err)
	require.True(t, result.Restored)
	second := l.volumes()
	require.Len(t, second, 6, "those of before are deleted")
	for _, v := range second {
		require.False(t, slices.ContainsFunc(first, func(was ebs.Volume) bool { return was.ID == v.ID }))
	}
}

// forgetJournal deletes what the run has written since then, as if its process had been killed.
func (l *lab) forgetJournal(t *testing.T, run cluster.RunID, then []objstore.Object) {
	t.Helper()
	now, err := l.store.List(t.Context(), manifest.JournalPrefix(run))
	require.NoError(t, err)
	for _, o := range now {
		if !slices.ContainsFunc(then, func(was objstore.Object) bool { return was.Key == o.Key }) {
			require.NoError(t, l.store.Delete(t.Context(), o.Key))
		}
	}
}
