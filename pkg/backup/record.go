package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// recorder writes a backup's manifest, seals it, and removes it again.
type recorder struct {
	pd interface {
		pd.Members
		pd.Settings
		Tasks(ctx context.Context) ([]pd.Task, error)
	}
	ebs interface {
		ebs.Snapshots
		ebs.Account
	}
	catalog catalog.Catalog
	opts    Options

	zones    map[cluster.Zone]string // nil before they were read
	manifest *manifest.Manifest      // nil before it was recorded
	sealing  bool                    // a seal was requested: it may exist, or still arrive
	sealed   bool
}

// draft returns the proven cut's manifest, without marks. The highest timestamp and id are read after the cut, so that
// they bound everything in the snapshots.
func (w *recorder) draft(
	ctx context.Context, s *phase.Scope, p *proof, snapshots []manifest.Snapshot,
) (*manifest.Manifest, error) {
	if w.zones == nil {
		w.zones = w.zoneIDs(ctx, s, snapshots)
	}
	maxTS, err := w.pd.Now(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "take timestamp", w.opts.Cluster.String())
	}
	state, err := w.pdState(ctx, s)
	if err != nil {
		return nil, err
	}
	alloc, voters, err := w.regionFacts(ctx)
	if err != nil {
		return nil, err
	}
	return &manifest.Manifest{
		ID: w.opts.Backup, Run: w.opts.Run, Tool: w.opts.Tool, Region: w.ebs.Region(),
		BackupTS: p.BackupTS, MaxTS: maxTS, AllocID: alloc, Replicas: voters, ZoneIDs: w.zones,
		CreatedAt: p.Started, CutStartedAt: p.Hold.CutStart, CutEndedAt: p.Hold.CutStart.Add(p.Hold.Cut),
		Source: p.Source.Topology, Snapshots: snapshots, FullBackupType: manifest.FullBackupType, PDState: state,
		EarlyApply: p.EarlyApply, HeldBy: p.HeldBy, ClusterMeta: w.opts.ClusterMeta, Tags: w.opts.Tags,
		LogBackups: w.logBackups(ctx, s),
		Kubernetes: manifest.Kubernetes{
			TidbCluster: p.Source.TidbCluster, Objects: p.Source.Objects, PVCs: p.Source.PVCs, PVs: p.Source.PVs,
		},
	}, nil
}

// logBackups lists the cluster's log backups. No restore needs them, so an error is only a warning.
func (w *recorder) logBackups(ctx context.Context, s *phase.Scope) (found []manifest.LogBackup) {
	tasks, err := w.pd.Tasks(ctx)
	if err != nil {
		s.Warn("the cluster's log backups are not in the manifest: %v", err)
	}
	for _, t := range tasks {
		if t.Kind == pd.TaskLogBackup {
			found = append(found, manifest.LogBackup{
				Name: t.Name, StartTS: t.StartTS, Paused: !t.Running(), Checkpoint: t.Checkpoint, Error: t.Error,
				Storage: t.Storage,
			})
		}
	}
	return found
}

// drafted notes the manifest to record, complete with its marks.
func (w *recorder) drafted(m *manifest.Manifest) { w.manifest = m }

// put writes the manifest, which must be of the cluster with this id, and br's documents. Idempotent.
func (w *recorder) put(ctx context.Context, clusterID uint64) error {
	if err := w.checkSource(w.manifest, clusterID); err != nil {
		return err
	}
	if err := w.catalog.PutManifest(ctx, w.manifest); err != nil || w.opts.ClusterMeta == nil {
		return err
	}
	// TiDB Operator ends the other process's hold, and later finds the snapshots to delete, by this object: it is
	// written as soon as the cut is proven, and does not mean completion, which the exit code shows.
	return w.catalog.PutForBR(ctx, w.manifest)
}

// zoneIDs returns the ids of the volumes' zones, for restores in other accounts, where the names differ. In its own
// account a backup does not need them, so an error is only noted.
func (w *recorder) zoneIDs(ctx context.Context, s *phase.Scope, snapshots []manifest.Snapshot) map[cluster.Zone]string {
	out := map[cluster.Zone]string{}
	all, err := w.ebs.ZoneIDs(ctx)
	if err != nil {
		s.Note("could not read the ids of the zones: %v", err)
		return out
	}
	for _, snap := range snapshots {
		if id := all[snap.Zone]; id != "" {
			out[snap.Zone] = id
		}
	}
	return out
}

// regionFacts returns the largest id of a store, region or peer in PD after the cut, and the smallest number of voters
// of a region: a restore must find a majority of these.
func (w *recorder) regionFacts(ctx context.Context) (largest uint64, voters int, err error) {
	regions, err := w.pd.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return 0, 0, failure.Annotate(err, "list regions", w.opts.Cluster.String())
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

// nameLimit bounds writing the document that names the cut's snapshots: the cluster is held meanwhile.
const nameLimit = 2 * time.Second

// nameCut records the snapshots for TiDB Operator's deletion of the Backup, before they are proven to be a backup: the
// Operator's manager does not forward SIGTERM, so the backup of a deleted Job is killed. It is only done under another
// process's hold, as for the Operator's Backups, which it prolongs by one write. Without it gc finds the snapshots.
func (w *recorder) nameCut(ctx context.Context, s *phase.Scope, of *cluster.Topology, snapshots []manifest.Snapshot) {
	if w.opts.ClusterMeta == nil || !w.opts.OtherHolds {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, nameLimit)
	defer cancel()
	m := &manifest.Manifest{
		ID: w.opts.Backup, Run: w.opts.Run, Region: w.ebs.Region(), Source: *of, Snapshots: snapshots,
		ClusterMeta: w.opts.ClusterMeta,
	}
	if err := w.catalog.PutCutForBR(ctx, m); err != nil {
		s.Warn("if this process is killed before its cut is proven, a deletion of the Backup leaves the snapshots, "+
			"and tisnap gc deletes them: %v", err)
	}
}

// findRecorded takes over the manifest of the cut at this backup ts, if any, that an earlier process of the run wrote
// without recording that.
func (w *recorder) findRecorded(ctx context.Context, ts cluster.TS) error {
	m, err := w.catalog.Unsealed(ctx, w.opts.Backup)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil
	case err != nil:
		return err
	case m.Run != w.opts.Run || m.BackupTS != ts:
		return failure.New(failure.Conflict, "record backup", string(w.opts.Backup),
			"there is a manifest of run %s", m.Run)
	}
	w.manifest = m
	return nil
}

// adopt takes over the manifest that an earlier process recorded for the cluster with this id. A seal may be in flight
// since then.
func (w *recorder) adopt(ctx context.Context, clusterID uint64) (err error) {
	w.sealing = true
	if w.manifest, err = w.catalog.Unsealed(ctx, w.opts.Backup); err != nil {
		return err
	}
	return w.checkSource(w.manifest, clusterID)
}

// checkSource returns a Conflict if a manifest is of another cluster than the one with this id.
func (w *recorder) checkSource(m *manifest.Manifest, clusterID uint64) error {
	if m.Source.ClusterID == clusterID {
		return nil
	}
	return failure.New(failure.Conflict, "record backup", string(w.opts.Backup),
		"its manifest is of PD's cluster id %d, and the run is of %d", m.Source.ClusterID, clusterID).
		WithHint("undo the run with the kubeconfig of the cluster that it began with: tisnap runs abort %s", w.opts.Run)
}

// forget removes the manifest of the cut at this backup ts, which will never be sealed.
func (w *recorder) forget(ctx context.Context, ts cluster.TS) error {
	if err := w.bury(ctx); err != nil {
		return err
	}
	return w.catalog.Forget(ctx, w.opts.Backup, w.opts.Run, ts)
}

// pdState reads what only PD stores and no volume has. A part that PD does not show is recorded as missing, which a
// restore reports.
func (w *recorder) pdState(ctx context.Context, s *phase.Scope) (*cluster.PDState, error) {
	state, err := w.pd.State(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read PD's state", w.opts.Cluster.String())
	}
	for part, why := range state.Missing {
		s.Warn("PD's %s are not in the backup: %s", part, why)
	}
	return &state, nil
}
