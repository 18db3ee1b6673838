package gc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// copied seals a copy whose snapshots, one of each volume, EC2 began at that hour. Its backup was cut on that day.
func (p *place) copied(t *testing.T, id cluster.BackupID, day, hour int, volumes ...cluster.VolumeID) {
	t.Helper()
	p.copiedOver(t, id, nil, day, hour, volumes...)
}

// copiedOver is copied for the copy of a backup that was itself copied, unless of is nil.
func (p *place) copiedOver(t *testing.T, id cluster.BackupID, of *manifest.CopyOf, day, hour int, volumes ...cluster.VolumeID) {
	t.Helper()
	run := cluster.RunID("run-" + id)
	p.died(t, run, journal.About{Operation: journal.Copy, Cluster: prod, Backup: id})
	created := now.AddDate(0, 0, day)
	m := &manifest.Manifest{
		ID: id, Run: run, Region: region, BackupTS: cluster.MakeTS(created, 0), CreatedAt: created,
		Source: cluster.Topology{Cluster: prod, ClusterID: 7, Version: "8.5.0"},
		CopyOf: &manifest.CopyOf{Run: "r", Storage: "s", Location: "l", Region: "eu-west-1", Account: "a", ManifestSHA256: "0", CopyOf: of},
	}
	for i, volume := range volumes {
		v := cluster.Volume{ID: volume, Role: cluster.RoleData, Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100}}
		store := cluster.StoreID(i + 1)
		m.Source.Stores = append(m.Source.Stores, cluster.Store{ID: store, Volumes: []cluster.Volume{v}})
		s := manifest.NewSnapshot(cluster.SnapshotID("snap-"+string(id)+"-"+string(volume)), store, v, now.Add(time.Duration(hour)*time.Hour))
		s.CopiedFrom = "snap-0"
		m.Snapshots = append(m.Snapshots, s)
		p.cut(run, id, s.ID)
	}
	require.NoError(t, p.catalog.PutManifest(t.Context(), m))
	require.NoError(t, p.catalog.Seal(t.Context(), id, created, 0))
}

func (p *place) archive(ids ...cluster.SnapshotID) {
	for _, id := range ids {
		s := p.ec2.snapshots[id]
		s.Archived = true
		p.ec2.snapshots[id] = s
	}
}

// EC2 makes an incremental copy while the copy of the volume that it began last exists, of whichever day that is.
func TestPrune_NewestCopyOfAVolume_StaysUnlessAllowed(t *testing.T) {
	t.Parallel()
	const a, b, c = cluster.VolumeID("vol-a"), cluster.VolumeID("vol-b"), cluster.VolumeID("vol-c")
	for name, row := range map[string]struct {
		prepare func(*testing.T, *place)
		want    map[cluster.BackupID]Action
		reason  string
	}{
		"copied in order": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 1, a, b)
			p.copied(t, "two", 2, 2, a, b)
		}, map[cluster.BackupID]Action{"one": ActionDelete, "two": ActionKeep}, ""},
		"an older backup was copied last": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 2, a, b)
			p.copied(t, "two", 2, 1, a, b)
		}, map[cluster.BackupID]Action{"one": ActionKeep, "two": ActionKeep}, "the newest copy of 2 of its 2 volumes: the next copy would be full"},
		"one volume has no newer copy": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 1, a, b)
			p.copied(t, "two", 2, 2, a, c)
		}, map[cluster.BackupID]Action{"one": ActionKeep, "two": ActionKeep}, "the newest copy of 1 of its 2 volumes: the next copy would be full"},
		"the newer one came another way": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 1, a, b)
			p.copiedOver(t, "two", &manifest.CopyOf{}, 2, 2, a, b)
		}, map[cluster.BackupID]Action{"one": ActionKeep, "two": ActionKeep}, "the newest copy of 2 of its 2 volumes: the next copy would be full"},
		"the newer one is broken": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 2, a, b)
			p.copied(t, "two", 2, 3, a, b)
			p.copied(t, "new", 3, 1, a, b)
			delete(p.ec2.snapshots, "snap-two-vol-a")
		}, map[cluster.BackupID]Action{"one": ActionKeep, "two": ActionKeep, "new": ActionKeep}, "the newest copy of 2 of its 2 volumes: the next copy would be full"},
		"the newest copies are in the archive tier": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 2, a, b)
			p.copied(t, "two", 2, 1, a, b)
			p.archive("snap-one-vol-a", "snap-one-vol-b")
		}, map[cluster.BackupID]Action{"one": ActionDelete, "two": ActionKeep}, ""},
		"one of them is": {func(t *testing.T, p *place) {
			p.copied(t, "one", 1, 2, a, b)
			p.copied(t, "two", 2, 1, a, b)
			p.archive("snap-one-vol-a")
		}, map[cluster.BackupID]Action{"one": ActionKeep, "two": ActionKeep}, "the newest copy of 1 of its 2 volumes: the next copy would be full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := daily(t, 0)
			row.prepare(t, p)
			o := keepLast(1)
			o.DryRun = true
			report, err := Prune(t.Context(), p.deps, o)
			require.NoError(t, err)
			require.Equal(t, row.want, decided(report))
			last := report.Backups[len(report.Backups)-1]
			require.Equal(t, cluster.BackupID("one"), last.ID)
			require.Contains(t, last.Reason, row.reason)
			o.AllowFull = true
			report, err = Prune(t.Context(), p.deps, o)
			require.NoError(t, err)
			require.Equal(t, ActionDelete, report.Backups[len(report.Backups)-1].Action)
		})
	}
}
