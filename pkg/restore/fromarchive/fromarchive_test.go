package fromarchive

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runner"
)

// account is EC2 with some snapshots.
type account struct {
	EC2
	snapshots []ebs.Snapshot
	mu        sync.Mutex // snapshots are deleted several at a time
	deleted   []cluster.SnapshotID
}

func (a *account) FindSnapshots(context.Context, ebs.Tags) ([]ebs.Snapshot, error) {
	return a.snapshots, nil
}

func (a *account) DeleteSnapshot(_ context.Context, id cluster.SnapshotID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.deleted = append(a.deleted, id)
	return nil
}

func newTestMaker(t *testing.T, run cluster.RunID, a *account) *Maker {
	t.Helper()
	r, _, err := archivetest.New(t.Context(), objstoretest.NewMemory(nil), 8<<20)
	require.NoError(t, err)
	own := runner.New(runner.Config{Run: run, Store: objstoretest.NewMemory(nil)})
	return NewMaker(&Source{Repository: r, ID: "b-1", Archive: &format.Archive{}}, a,
		volumes.Owner{Runner: own, Run: run, Backup: "b", Target: cluster.Name{Namespace: "tidb", Name: "copy"}},
		Options{Poll: time.Millisecond}, &phase.Remains{})
}

// inStep calls do as a step does.
func inStep(t *testing.T, do func(context.Context, *phase.Scope) error) error {
	t.Helper()
	own := runner.New(runner.Config{Run: "check", Store: objstoretest.NewMemory(nil)})
	return own.Check(t.Context(), phase.Step{Phase: "p", Name: "s", Deadline: time.Minute, Do: do, ReadOnly: true})
}

// Snapshots that a later process of the run asked for, or took over, are that process's.
func TestDelete_LaterProcessHasThem_DeletesNothing(t *testing.T) {
	t.Parallel()
	a := &account{snapshots: []ebs.Snapshot{{ID: "snap-1"}, {ID: "snap-2", Tags: ebs.Tags{ebs.TagEpoch: "7"}}}}
	m := newTestMaker(t, "r", a)
	err := inStep(t, func(ctx context.Context, s *phase.Scope) error { return m.Delete(ctx, s, Made{"a": "snap-1"}, 0) })
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Empty(t, a.deleted)

	a.snapshots[1].Tags = nil
	require.NoError(t, inStep(t, func(ctx context.Context, s *phase.Scope) error {
		return m.Delete(ctx, s, Made{"a": "snap-1", "b": "snap-3"}, 0)
	}))
	require.ElementsMatch(t, []cluster.SnapshotID{"snap-1", "snap-2", "snap-3"}, a.deleted, "each once")
}

// Each snapshot of the manifest has one that was made in its place, or the volumes are not made.
func TestMade_Manifest_NamesAllOrNone(t *testing.T) {
	t.Parallel()
	m := &manifest.Manifest{Snapshots: []manifest.Snapshot{{ID: "a"}, {ID: "b"}}}
	_, err := Made{"a": "snap-1"}.Manifest(m)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	got, err := Made{"a": "snap-1", "b": "snap-2"}.Manifest(m)
	require.NoError(t, err)
	require.Equal(t, []cluster.SnapshotID{"snap-1", "snap-2"}, got.SnapshotIDs())
	require.Equal(t, cluster.SnapshotID("a"), m.Snapshots[0].ID, "the archive's own manifest stays")
}

// The snapshots that are made are the backup's own, also of one that was adopted from parts.
func TestSource_AdoptedBackup_ItsSnapshotsAreTaggedAsItsOwn(t *testing.T) {
	t.Parallel()
	v := cluster.Volume{ID: "vol-1", Role: cluster.RoleData, VolumeSpec: cluster.VolumeSpec{SizeGiB: 1}}
	m := &manifest.Manifest{
		ID: "whole", Run: "r", Region: "us-west-2", BackupTS: 1,
		Source: cluster.Topology{
			Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: 7, Version: "8.5.0",
			Stores: []cluster.Store{{ID: 4, Volumes: []cluster.Volume{v}}},
		},
		Snapshots: []manifest.Snapshot{manifest.NewSnapshot("snap-1", 4, v, time.Now())},
		Parts:     []manifest.Part{{Name: "a", Backup: "part-a", Stores: []cluster.StoreID{4}}},
	}
	doc, err := manifest.Encode(m)
	require.NoError(t, err)
	s := &Source{ID: "a-1", Archive: &format.Archive{
		Backup: "whole", Manifest: format.NewManifest(doc),
		Stores: []format.Store{{ID: 4, Volumes: []format.Volume{{Role: string(v.Role), Source: "snap-1", Size: 1 << 30}}}},
	}}
	got, err := s.Manifest("eu-west-1")
	require.NoError(t, err)
	require.EqualValues(t, "whole", got.TaggedAs(4))
}

// A token is of one run, one attempt of it and one volume, and carries the tags by which gc finds the snapshot.
func TestDescribe_TokenIsOfTheRun(t *testing.T) {
	t.Parallel()
	v := &archived{Volume: format.Volume{Role: "data"}, Store: 4}
	snap := manifest.Snapshot{Encrypted: true}
	m := newTestMaker(t, "r", &account{})
	first := m.describe(snap, v, 1)
	require.Equal(t, first, m.describe(snap, v, 1))
	require.True(t, first.Encrypted)
	require.Empty(t, first.KMSKey)
	require.Equal(t, "r", first.Tags[ebs.TagRun])
	require.Equal(t, "b-1", first.Tags[ebs.TagArchive])
	tokens := map[string]bool{first.Token: true, m.describe(snap, v, 2).Token: true}
	tokens[m.describe(snap, &archived{Volume: v.Volume, Store: 5}, 1).Token] = true
	m.Continue(Earlier{Restarts: 1})
	tokens[m.describe(snap, v, 1).Token] = true
	other := newTestMaker(t, "other", &account{})
	other.source = m.source
	tokens[other.describe(snap, v, 1).Token] = true
	require.Len(t, tokens, 5)
	m.opts.KMSKey = "alias/key"
	require.Empty(t, m.describe(snap, v, 1).KMSKey, "the API takes ARNs alone")
	m.opts.KMSKey = "arn:aws:kms:us-west-2:1:key/k"
	require.Equal(t, m.opts.KMSKey, m.describe(manifest.Snapshot{}, v, 1).KMSKey)
}
