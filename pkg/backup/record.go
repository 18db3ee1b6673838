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
func (r *run) record(ctx context.Context, s *phase.Scope) error {
	if err := r.proof.check("record backup", r.opts.Backup, r.backupTS); err != nil {
		return err
	}
	if done, err := r.recordedBefore(ctx); done || err != nil {
		return err
	}
	if r.result.Manifest != nil { // the step is repeated: what is stored of it already cannot be replaced
		return r.put(ctx, r.result.Manifest)
	}
	if r.zones == nil {
		r.zones = r.zoneIDs(ctx, s)
	}
	maxTS, err := r.PD.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", r.opts.Cluster.String())
	}
	state, err := r.pdState(ctx, s)
	if err != nil {
		return err
	}
	alloc, voters, err := r.regionFacts(ctx)
	if err != nil {
		return err
	}
	marked, err := r.storeMarks(ctx, s)
	if err != nil {
		return err
	}
	m := &manifest.Manifest{
		ID: r.opts.Backup, Run: r.opts.Run, Tool: r.opts.Tool, Region: r.EBS.Region(),
		BackupTS: r.backupTS, MaxTS: maxTS, AllocID: alloc, Replicas: voters, ZoneIDs: r.zones,
		CreatedAt: r.created, CutStartedAt: r.result.Hold.CutStart,
		CutEndedAt: r.result.Hold.CutStart.Add(r.result.Hold.Cut),
		Source:     r.source.Topology, Snapshots: r.snapshots(),
		FullBackupType: manifest.FullBackupType, PDState: state, Marks: marked, EarlyApply: r.proof.EarlyApply, HeldBy: r.proof.HeldBy, ClusterMeta: r.opts.ClusterMeta, Tags: r.opts.Tags,
		Kubernetes: manifest.Kubernetes{
			TidbCluster: r.source.TidbCluster, PVCs: r.source.PVCs, PVs: r.source.PVs,
		},
	}
	if err := r.fence.Check(ctx); err != nil { // the marks before it may be large, and take long
		return err
	}
	r.result.Manifest = m
	return r.put(ctx, m)
}

// put writes the manifest, which must be of the run's own cluster, and br's documents of it. Idempotent.
func (r *run) put(ctx context.Context, m *manifest.Manifest) error {
	if err := r.checkSource(m); err != nil {
		return err
	}
	if err := r.catalog.PutManifest(ctx, m); err != nil || r.opts.ClusterMeta == nil {
		return err
	}
	// TiDB Operator ends the other process's hold, and later finds the snapshots to delete, by this object: it is written
	// as soon as the cut is proven, and says nothing of completion. That says the exit code.
	return r.catalog.PutForBR(ctx, m)
}

// zoneIDs says which places the volumes' zones are: a restore in another account needs it, where the names
// differ. A backup without them is as good in its own account, so an error is only noted.
func (r *run) zoneIDs(ctx context.Context, s *phase.Scope) map[cluster.Zone]string {
	out := map[cluster.Zone]string{}
	all, err := r.EBS.ZoneIDs(ctx)
	if err != nil {
		s.Note("the ids of the zones are not known: %v", err)
		return out
	}
	for _, snap := range r.snapshots() {
		if id := all[snap.Zone]; id != "" {
			out[snap.Zone] = id
		}
	}
	return out
}

// regionFacts is the largest id of a store, region or peer that PD knows after the cut, and the smallest
// number of voters of a region: a restore must find a majority of these.
func (r *run) regionFacts(ctx context.Context) (largest uint64, voters int, err error) {
	regions, err := r.PD.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return 0, 0, failure.Annotate(err, "list regions", r.opts.Cluster.String())
	}
	for _, region := range regions {
		largest = max(largest, uint64(region.ID))
		n := 0
		for _, p := range region.Peers {
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
func (r *run) snapshots() []manifest.Snapshot {
	byVolume := map[cluster.VolumeID]ebs.Snapshot{}
	for _, snap := range r.sets.all() {
		byVolume[snap.Volume] = snap
	}
	var out []manifest.Snapshot
	for _, st := range r.source.Topology.Stores {
		for _, v := range st.Volumes {
			snap := byVolume[v.ID]
			out = append(out, manifest.NewSnapshot(snap.ID, st.ID, v, snap.StartedAt))
		}
	}
	return out
}

// forget removes the manifest of a run that failed, so that nothing names snapshots that are deleted.
func (r *run) forget(ctx context.Context, _ *phase.Scope) error {
	if err := r.bury(ctx); err != nil {
		return err
	}
	return r.catalog.Forget(ctx, r.opts.Backup, r.opts.Run, r.backupTS)
}
