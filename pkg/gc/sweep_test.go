package gc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

const fast = 1000 // deletions a second

func TestCollect_DeadRun_IsBuriedBeforeTheFirstDeletion(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	buried := true
	p.ec2.onDelete = func(cluster.SnapshotID) error { buried = buried && p.buried(t); return nil }
	report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.True(t, buried)
	require.Equal(t, map[string]Action{"snap-1": ActionDeleted, "snap-2": ActionDeleted, "b": ActionDeleted}, actions(report))
	require.Empty(t, p.ec2.ids())
	require.False(t, p.exists(t))

	report, err = Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Empty(t, report.Items)
}

func TestCollect_DryRun_ChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	report, err := Collect(t.Context(), p.deps, Options{DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 3, report.Count(ActionDelete))
	require.Len(t, p.ec2.ids(), 2)
	require.False(t, p.buried(t))
}

// Between the plan and the first deletion the run that was thought dead takes its lock, or seals.
func TestSweep_RunLivesAfterAll_NothingOfItIsDeleted(t *testing.T) {
	t.Parallel()
	for name, comesBack := range map[string]func(*testing.T, *place){
		"it holds its lock": func(t *testing.T, p *place) { p.lock(t, "r") },
		"it sealed":         func(t *testing.T, p *place) { p.seal(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			report, w, err := plan(t.Context(), p.deps, Options{})
			require.NoError(t, err)
			require.Equal(t, 3, report.Count(ActionDelete))
			comesBack(t, p)
			newSweep(p.deps, w, fast).sweep(t.Context(), report)
			require.Equal(t, map[string]Action{"snap-1": ActionLeft, "snap-2": ActionLeft, "b": ActionLeft}, actions(report))
			require.Equal(t, failure.Partial, failure.KindOf(report.undeleted()))
			require.Len(t, p.ec2.ids(), 2)
			require.False(t, p.buried(t))
		})
	}
}

// A sweep of many deletions lasts for hours: the run is continued after the first one.
func TestSweep_RunIsContinuedInTheMiddle_TheRestStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPlace(t)
		report, w, err := plan(t.Context(), p.deps, Options{})
		require.NoError(t, err)
		require.Equal(t, 3, report.Count(ActionDelete))
		continued := sync.OnceFunc(func() { p.lock(t, "r") })
		p.ec2.onDelete = func(cluster.SnapshotID) error { continued(); return nil }
		newSweep(p.deps, w, 1).sweep(t.Context(), report)
		require.Equal(t, 1, report.Count(ActionDeleted))
		require.Equal(t, 1, report.Count(ActionLeft))
		require.Equal(t, failure.Partial, failure.KindOf(report.undeleted()))
		require.Len(t, p.ec2.ids(), 1)
		require.True(t, p.exists(t), "what is stored of it stays with the snapshot")
	})
}

// A limit takes the rest out of the report, and so out of what is deleted; journals are not compacted then.
func TestCollect_Limited_TheRestIsNeitherListedNorDeleted(t *testing.T) {
	t.Parallel()
	dev := cluster.Name{Namespace: "tidb", Name: "dev"}
	rest, whole := map[string]Action{"snap-3": ActionDeleted}, map[string]Action{"snap-1": ActionDeleted, "snap-2": ActionDeleted, "b": ActionDeleted}
	for name, row := range map[string]struct {
		limit Options
		want  map[string]Action
		stay  []cluster.SnapshotID
	}{
		"to a run":                  {Options{Only: "other"}, rest, []cluster.SnapshotID{"snap-1", "snap-2"}},
		"to a cluster":              {Options{Of: []cluster.Name{prod}}, whole, []cluster.SnapshotID{"snap-3"}},
		"to another cluster":        {Options{Of: []cluster.Name{dev}}, rest, []cluster.SnapshotID{"snap-1", "snap-2"}},
		"to a run of another":       {Options{Of: []cluster.Name{prod}, Only: "other"}, map[string]Action{}, []cluster.SnapshotID{"snap-1", "snap-2", "snap-3"}},
		"to a cluster without runs": {Options{Of: []cluster.Name{{Namespace: "x", Name: "y"}}}, map[string]Action{}, []cluster.SnapshotID{"snap-1", "snap-2", "snap-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.died(t, "other", journal.About{Operation: journal.Backup, Cluster: dev, Backup: "c"})
			p.cut("other", "c", "snap-3")
			p.sealAs(t, "gone", "sealed", "snap-gone", now)
			row.limit.Rate = fast
			report, err := Collect(t.Context(), p.deps, row.limit)
			ofProd := row.limit.Only == "" && row.limit.Of[0] == prod
			require.Equal(t, ofProd, failure.Is(err, failure.Corrupt), "only prod misses a snapshot: %v", err)
			require.Equal(t, row.want, actions(report))
			require.ElementsMatch(t, row.stay, p.ec2.ids())
		})
	}
}

// The lock of another run of the cluster does not concern this one.
func TestSweep_AnotherRunHoldsTheLock_IsDeleted(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.lock(t, "another")
	_, err := Collect(t.Context(), p.deps, Options{Rate: fast})
	require.NoError(t, err)
	require.Empty(t, p.ec2.ids())
}

// As long as one snapshot stays, whatever the reason, what is stored of the backup identifies it.
func TestSweep_ASnapshotStays_HoldsTheBackupsObjects(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*place)
		stays  Action
	}{
		"it is locked": {func(p *place) {
			p.ec2.locks = []ebs.SnapshotLock{{Snapshot: "snap-1", Mode: "governance"}}
		}, ActionKeep},
		"its deletion fails": {func(p *place) {
			p.ec2.onDelete = func(id cluster.SnapshotID) error {
				if id == "snap-1" {
					return failure.New(failure.Denied, "delete snapshot", "snap-1", "no permission")
				}
				return nil
			}
		}, ActionLeft},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			row.change(p)
			report, err := Collect(t.Context(), p.deps, Options{Rate: fast})
			require.Equal(t, map[string]Action{"snap-1": row.stays, "snap-2": ActionDeleted, "b": ActionKeep}, actions(report))
			require.Equal(t, row.stays == ActionLeft, failure.Is(err, failure.Denied), "%v", err)
			require.Equal(t, []cluster.SnapshotID{"snap-1"}, p.ec2.ids())
			require.True(t, p.exists(t))
		})
	}
}

func TestHolds_CountsEverySnapshotThatIsNotDeleted(t *testing.T) {
	t.Parallel()
	r := &Report{Items: []Item{
		{Kind: KindSnapshot, Backup: "b", Action: ActionDeleted}, {Kind: KindVolume, Backup: "b", Action: ActionKeep},
		{Kind: KindSnapshot, Backup: "c", Action: ActionKeep},
	}}
	require.Empty(t, r.holds("b"))
	for _, action := range []Action{ActionDelete, ActionLeft, ActionKeep, ActionInUse} {
		r.Items[0].Action = action
		require.Equal(t, "1 of its snapshots still exist", r.holds("b"), action)
	}
}

// What was not begun when the run ended is still there, and the result reports it.
func TestSweep_Cancelled_WhatWasNotBegunIsLeft(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	report, w, err := plan(t.Context(), p.deps, Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	p.ec2.onDelete = func(cluster.SnapshotID) error { cancel(stop); return nil }
	newSweep(p.deps, w, 0.001).sweep(ctx, report)
	require.Equal(t, 1, report.Count(ActionDeleted))
	require.Error(t, report.undeleted())
	require.Len(t, p.ec2.ids(), 1)
	require.True(t, p.exists(t))
}
