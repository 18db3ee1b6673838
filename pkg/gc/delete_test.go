package gc

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestDelete_SealedBackup_IsBuriedThenItsSnapshotsGoThenItsObjects(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	buried, there := true, true
	p.ec2.onDelete = func(cluster.SnapshotID) error {
		buried, there = buried && p.buried(t), there && p.exists(t)
		return nil
	}
	report, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.NoError(t, err)
	require.True(t, buried)
	require.True(t, there)
	require.Equal(t, map[string]Action{"snap-1": ActionDeleted, "snap-2": ActionDeleted, "b": ActionDeleted}, actions(report))
	require.Empty(t, p.ec2.ids())
	require.False(t, p.exists(t))

	report, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Rate: fast})
	require.NoError(t, err)
	require.True(t, report.Nothing)
	require.Empty(t, report.Near)
}

// The snapshots of an adopted backup are those of its parts, in whose storages they are deleted.
func TestDelete_AdoptedBackup_LeavesTheSnapshotsToItsParts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	v := cluster.Volume{ID: "vol-1", Role: cluster.RoleData, VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100}}
	require.NoError(t, p.catalog.PutManifest(t.Context(), &manifest.Manifest{
		ID: "b", Run: "r", Region: region, BackupTS: cluster.MakeTS(now, 0), CreatedAt: now,
		Source:    cluster.Topology{Cluster: prod, ClusterID: 7, Version: "8.5.0", Stores: []cluster.Store{{ID: 1, Volumes: []cluster.Volume{v}}}},
		Snapshots: []manifest.Snapshot{manifest.NewSnapshot("snap-1", 1, v, now)},
		Parts:     []manifest.Part{{Name: "a", Location: "s3://b/a", Stores: []cluster.StoreID{1}}},
	}))
	require.NoError(t, p.catalog.Seal(t.Context(), "b", now, 0))
	p.ec2.locks = []ebs.SnapshotLock{{Snapshot: "snap-1", Mode: "compliance", ExpiresAt: time.Now().Add(time.Hour)}}
	report, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Last: true, Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[string]Action{"b": ActionDeleted}, actions(report))
	require.Contains(t, report.Items[0].Reason, "s3://b/a")
	require.Equal(t, []cluster.SnapshotID{"snap-1", "snap-2"}, p.ec2.ids())
	require.False(t, p.exists(t))
}

// A name that was misspelt is no success that goes unnoticed.
func TestDelete_NothingFound_NamesTheNearest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	report, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "bb", Rate: fast})
	require.NoError(t, err)
	require.True(t, report.Nothing)
	require.Empty(t, report.Near, "b differs in half of the characters")
	x := &deletion{opts: DeleteOptions{Backup: "prod-20261122-19491"}, world: &world{backups: map[cluster.BackupID]catalog.Entry{
		"prod-20261122-194917": {}, "prod-20261122-194924": {}, "other": {},
	}}}
	require.Equal(t, []string{"prod-20261122-194917", "prod-20261122-194924"}, x.near())
}

func TestDelete_WhatMustNotGo_IsRefusedBeforeTheFirstChange(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		prepare func(*testing.T, *place)
		options DeleteOptions
		kind    failure.Kind
		text    string
	}{
		"the last one": {func(*testing.T, *place) {}, DeleteOptions{Backup: "b"}, failure.Conflict, "the only restorable backup of cluster tidb/prod"},
		"its run is alive": {
			func(t *testing.T, p *place) { p.lock(t, "r") },
			DeleteOptions{Backup: "b", Last: true}, failure.Conflict, "run r (backup) uses it",
		},
		"a restore reads it": {
			func(t *testing.T, p *place) {
				p.died(t, "v", journal.About{Operation: journal.Restore, Cluster: prod, Backup: "b"})
				p.lock(t, "v")
			}, DeleteOptions{Backup: "b", Last: true}, failure.Conflict, "run v (restore) uses it",
		},
		"a snapshot is locked": {
			func(_ *testing.T, p *place) {
				p.ec2.locks = []ebs.SnapshotLock{{Snapshot: "snap-2", Mode: "compliance", ExpiresAt: time.Now().Add(time.Hour)}}
			}, DeleteOptions{Backup: "b", Last: true}, failure.Conflict, "1 of 2 snapshots are locked",
		},
		"no id": {func(*testing.T, *place) {}, DeleteOptions{}, failure.Usage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.seal(t)
			row.prepare(t, p)
			_, err := Delete(t.Context(), p.deps, row.options)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.text)
			require.Len(t, p.ec2.ids(), 2)
			require.False(t, p.buried(t))
		})
	}
}

// Two backups may name one snapshot: a copied prefix, or a manifest written by hand.
func TestDelete_SnapshotOfAnotherSealedBackup_Stays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	x := &deletion{Deps: p.deps, opts: DeleteOptions{Backup: "b"}, catalog: p.catalog, world: &world{now: time.Now()}}
	require.NoError(t, x.read(t.Context()))
	x.world.named["snap-1"] = "other"
	found, err := x.find(t.Context())
	require.NoError(t, err)
	require.Equal(t, map[string]Action{"snap-1": ActionInUse, "snap-2": ActionDelete, "b": ActionDelete}, actions(&Report{Items: found}))
}

// An error half-way leaves a backup that can be deleted again, and never restored.
func TestDelete_CancelledHalfWay_IsFinishedByTheNextOne(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.seal(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.ec2.onDelete = func(cluster.SnapshotID) error { cancel(); return nil }
	_, err := Delete(ctx, p.deps, DeleteOptions{Backup: "b", Last: true, Rate: 0.001})
	require.Error(t, err)
	require.True(t, p.buried(t))
	_, err = p.catalog.Load(t.Context(), "b")
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	p.ec2.onDelete = nil
	_, err = Delete(t.Context(), p.deps, DeleteOptions{Backup: "b", Rate: fast})
	require.NoError(t, err)
	require.Empty(t, p.ec2.ids())
	require.False(t, p.exists(t))
}
