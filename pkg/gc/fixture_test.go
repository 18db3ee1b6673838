package gc

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

const region = "us-west-2"

// account is EC2 with the snapshots of one account. A test may watch or refuse deletions.
type account struct {
	EBS
	mu        sync.Mutex
	snapshots map[cluster.SnapshotID]ebs.Snapshot
	volumes   []ebs.Volume
	locks     []ebs.SnapshotLock
	onDelete  func(cluster.SnapshotID) error
	deleting  sync.Mutex
}

func (a *account) Region() string { return region }

func (a *account) AllVolumes(context.Context) ([]ebs.Volume, error) {
	return slices.Clone(a.volumes), nil
}

func (a *account) FindVolumes(context.Context, ebs.Tags) ([]ebs.Volume, error) {
	return slices.Clone(a.volumes), nil
}

func (a *account) DeleteVolume(_ context.Context, id cluster.VolumeID) error {
	a.volumes = slices.DeleteFunc(a.volumes, func(v ebs.Volume) bool { return v.ID == id })
	return nil
}

func (a *account) FastRestores(context.Context, []cluster.SnapshotID) ([]ebs.FastRestore, error) {
	return nil, nil
}

func (a *account) SnapshotLocks(_ context.Context, ids []cluster.SnapshotID) ([]ebs.SnapshotLock, error) {
	return slices.DeleteFunc(slices.Clone(a.locks), func(l ebs.SnapshotLock) bool { return !slices.Contains(ids, l.Snapshot) }), nil
}

func (a *account) AllSnapshots(context.Context) ([]ebs.Snapshot, error) {
	return a.find(func(ebs.Snapshot) bool { return true }), nil
}

func (a *account) DescribeSnapshots(_ context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error) {
	return a.find(func(s ebs.Snapshot) bool { return slices.Contains(ids, s.ID) }), nil
}

func (a *account) FindSnapshots(_ context.Context, tags ebs.Tags) ([]ebs.Snapshot, error) {
	return a.find(func(s ebs.Snapshot) bool {
		for key, value := range tags {
			if s.Tags[key] != value {
				return false
			}
		}
		return true
	}), nil
}

func (a *account) find(which func(ebs.Snapshot) bool) []ebs.Snapshot {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Values(a.snapshots)), func(s ebs.Snapshot) bool { return !which(s) })
}

// watchDelete calls onDelete for one deletion at a time.
func (a *account) watchDelete(id cluster.SnapshotID) error {
	a.deleting.Lock()
	defer a.deleting.Unlock()
	if a.onDelete == nil {
		return nil
	}
	return a.onDelete(id)
}

func (a *account) DeleteSnapshot(_ context.Context, id cluster.SnapshotID) error {
	if err := a.watchDelete(id); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.snapshots, id)
	return nil
}

func (a *account) ids() []cluster.SnapshotID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.snapshots))
}

// place is a storage and an account in which run "r" of backup "b" died an hour ago, with two snapshots.
type place struct {
	ec2     *account
	deps    Deps
	catalog catalog.Catalog
}

func newPlace(t *testing.T) *place {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	p := &place{ec2: &account{snapshots: map[cluster.SnapshotID]ebs.Snapshot{}}, catalog: catalog.Catalog{Store: store}}
	p.deps = Deps{EBS: p.ec2, Store: store}
	p.died(t, "r", journal.About{Operation: journal.Backup, Cluster: prod, Backup: "b"})
	require.NoError(t, p.catalog.Claim(t.Context(), catalog.Claim{ID: "b", Run: "r", Cluster: prod, ClaimedAt: now}))
	p.cut("r", "b", "snap-1", "snap-2")
	return p
}

// died writes the journal of a run that did not end.
func (p *place) died(t *testing.T, run cluster.RunID, about journal.About) {
	t.Helper()
	data, err := json.Marshal(about)
	require.NoError(t, err)
	require.NoError(t, journal.NewStoreJournal(p.deps.Store, manifest.JournalPrefix(run)).Append(t.Context(),
		phase.Record{Seq: 1, Run: run, Time: time.Now().Add(-time.Hour), Type: phase.RecordRun, Data: data}))
}

func (p *place) cut(run cluster.RunID, backup cluster.BackupID, ids ...cluster.SnapshotID) {
	for _, id := range ids {
		p.ec2.snapshots[id] = ebs.Snapshot{ID: id, State: ebs.SnapshotCompleted, Tags: ebs.Tags{
			ebs.TagRun: string(run), ebs.TagBackup: string(backup), ebs.TagCluster: prod.String(),
		}}
	}
}

// seal seals backup "b" with snap-1 as its only snapshot.
func (p *place) seal(t *testing.T) {
	t.Helper()
	p.sealAs(t, "b", "r", "snap-1", now)
}

// sealAs seals a backup with one snapshot.
func (p *place) sealAs(t *testing.T, id cluster.BackupID, run cluster.RunID, snapshot cluster.SnapshotID, created time.Time, tags ...string) {
	t.Helper()
	p.sealOf(t, 7, id, run, snapshot, created, tags...)
}

// sealOf seals a backup of the cluster with that id of PD's.
func (p *place) sealOf(t *testing.T, clusterID uint64, id cluster.BackupID, run cluster.RunID, snapshot cluster.SnapshotID, created time.Time, tags ...string) {
	t.Helper()
	v := cluster.Volume{ID: "vol-1", Role: cluster.RoleData, Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100}}
	require.NoError(t, p.catalog.PutManifest(t.Context(), &manifest.Manifest{
		ID: id, Run: run, Region: region, BackupTS: cluster.MakeTS(created, 0), CreatedAt: created, Tags: tags,
		Source: cluster.Topology{
			Cluster: prod, ClusterID: clusterID, Version: "8.5.0", Stores: []cluster.Store{{ID: 1, Volumes: []cluster.Volume{v}}},
		},
		Snapshots: []manifest.Snapshot{manifest.NewSnapshot(snapshot, 1, v, created)},
	}))
	require.NoError(t, p.catalog.Seal(t.Context(), id, created, 0))
}

func (p *place) lock(t *testing.T, run cluster.RunID) *runlock.Lock {
	t.Helper()
	return p.lockOf(t, prod, run)
}

func (p *place) lockOf(t *testing.T, name cluster.Name, run cluster.RunID) *runlock.Lock {
	t.Helper()
	lock, err := runlock.Acquire(t.Context(), p.deps.Store, name, runlock.Owner{Run: run, Host: "h", PID: 1, Command: "backup"}, time.Hour)
	require.NoError(t, err)
	return lock
}

func (p *place) buried(t *testing.T) bool {
	t.Helper()
	buried, err := p.catalog.Buried(t.Context(), "b")
	require.NoError(t, err)
	return buried
}

// exists reports whether anything of backup "b" is stored.
func (p *place) exists(t *testing.T) bool {
	t.Helper()
	return failure.Is(p.catalog.CheckFree(t.Context(), "b"), failure.Conflict)
}

// actions maps the items of a report to what became of them.
func actions(r *Report) map[string]Action {
	out := map[string]Action{}
	for _, i := range r.Items {
		out[i.ID] = i.Action
	}
	return out
}
