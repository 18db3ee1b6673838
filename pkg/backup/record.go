package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// record writes the manifest, unsealed. The highest timestamp and id are read after the cut, so that they
// bound everything that the snapshots hold.
func (t *task) record(ctx context.Context, s *phase.Scope) error {
	if t.zones == nil {
		t.zones = t.zoneIDs(ctx, s)
	}
	maxTS, err := t.PD.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", t.opts.Cluster.String())
	}
	alloc, voters, err := t.regionFacts(ctx)
	if err != nil {
		return err
	}
	m := &manifest.Manifest{
		ID: t.opts.Backup, Run: t.opts.Run, Tool: t.opts.Tool, Region: t.EBS.Region(),
		BackupTS: t.backupTS, MaxTS: maxTS, AllocID: alloc, Replicas: voters, ZoneIDs: t.zones,
		CreatedAt: t.result.Started, CutStartedAt: t.result.Hold.CutStart,
		CutEndedAt: t.result.Hold.CutStart.Add(t.result.Hold.Cut),
		Source:     t.source.Topology, Snapshots: t.snapshots(),
		FullBackupType: manifest.FullBackupType,
		Kubernetes: manifest.Kubernetes{
			TidbCluster: t.source.TidbCluster, PVCs: t.source.PVCs, PVs: t.source.PVs,
		},
	}
	if err := t.catalog.PutManifest(ctx, m); err != nil {
		return err
	}
	t.result.Manifest = m
	return nil
}

// zoneIDs tells which places the volumes' zones are: a restore in another account needs it, where the names
// differ. A backup without them is as good in its own account, so an error is only told.
func (t *task) zoneIDs(ctx context.Context, s *phase.Scope) map[cluster.Zone]string {
	out := map[cluster.Zone]string{}
	all, err := t.EBS.ZoneIDs(ctx)
	if err != nil {
		s.Note("the ids of the zones are not known: %v", err)
		return out
	}
	for _, snap := range t.snapshots() {
		if id := all[snap.Zone]; id != "" {
			out[snap.Zone] = id
		}
	}
	return out
}

// regionFacts is the largest id of a store, region or peer that PD knows after the cut, and the smallest
// number of voters of a region: a restore must find a majority of these.
func (t *task) regionFacts(ctx context.Context) (largest uint64, voters int, err error) {
	regions, err := t.PD.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return 0, 0, failure.Annotate(err, "list regions", t.opts.Cluster.String())
	}
	for _, r := range regions {
		largest = max(largest, uint64(r.ID))
		n := 0
		for _, p := range r.Peers {
			largest = max(largest, uint64(p.ID), uint64(p.Store))
			if !p.Learner {
				n++
			}
		}
		if voters == 0 || n < voters {
			voters = n
		}
	}
	return largest, voters, nil
}

// snapshots lists the cut's snapshots in the stores' and volumes' order.
func (t *task) snapshots() []manifest.Snapshot {
	byVolume := map[cluster.VolumeID]ebs.Snapshot{}
	for _, snap := range t.sets.all() {
		byVolume[snap.Volume] = snap
	}
	var out []manifest.Snapshot
	for _, st := range t.source.Topology.Stores {
		for _, v := range st.Volumes {
			snap := byVolume[v.ID]
			out = append(out, manifest.NewSnapshot(snap.ID, st.ID, v, snap.StartedAt))
		}
	}
	return out
}

// forget removes the manifest of a run that failed, so that nothing names snapshots that are deleted. The
// claim stays: the id was used.
func (t *task) forget(ctx context.Context, _ *phase.Scope) error {
	if err := t.unsealed(ctx); err != nil {
		return err
	}
	for _, key := range []string{manifest.ManifestKey(t.opts.Backup), manifest.BackupMetaKey(t.opts.Backup)} {
		if err := t.Store.Delete(ctx, key); err != nil {
			return failure.Annotate(err, "delete manifest", key)
		}
	}
	return nil
}
