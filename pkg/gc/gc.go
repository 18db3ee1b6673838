package gc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/retention"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// EBS is the part of EC2 that gc uses.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Inventory
	ebs.Performance
	Region() string
}

// Deps are the external systems. Store is required, and EBS, apart from Abort, which needs one of EBS and Connect.
type Deps struct {
	EBS   EBS
	Store objstore.Store
	// Connect connects to EC2. It is called only for a run that may have made something there.
	Connect func() (EBS, error)
	// Tool is the program's version, recorded with the storage's identity.
	Tool string
	// Kube connects to the Kubernetes cluster of restores' targets. It is called only if a decision depends on it;
	// without it, or after an error, such volumes are kept.
	Kube func() (Kube, error)
	// Owner is the owner of the lock on a target being removed.
	Owner runlock.Owner
	// Watching, if not nil, is called if a run seems dead by its lock: making sure takes a minute.
	Watching func(held *runlock.Record)
}

// Options are what the user chose.
type Options struct {
	// OlderThan keeps what a run left if its journal was written to within this time.
	OlderThan time.Duration
	// Kept also removes what failed restores with --keep-on-failure made.
	Kept bool
	// Clusters also removes what unfinished restores left in Kubernetes, and then their EBS volumes.
	Clusters bool
	// Only limits gc to this run; "" for all.
	Only cluster.RunID
	// Of limits gc to these clusters, as sources of backups and targets of restores; empty for all.
	Of []cluster.Name
	// KeepRuns is how long the journals of ended runs are kept; zero is forever.
	KeepRuns retention.Span
	// KeepReports is how long the reports of runs whose backup is gone are kept; zero is forever.
	KeepReports retention.Span
	// Rate is the number of deletions per second; zero is 1.
	Rate float64
	// DryRun changes nothing: items that would be deleted have the action delete.
	DryRun bool
}

// Collect finds what this storage's runs left in the account and deletes what is not needed. The report is complete
// even on an error. A Partial, Denied or Limited error names what could not be deleted; a Corrupt one names sealed
// backups whose snapshots are gone.
func Collect(ctx context.Context, d Deps, o Options) (*Report, error) {
	report, w, err := plan(ctx, d, o)
	if err != nil {
		return report, err
	}
	if o.Clusters && w.noLeftovers != nil {
		return report, failure.Annotate(w.noLeftovers, "ask Kubernetes", "")
	}
	if !o.DryRun && report.Count(ActionDelete) > 0 {
		if err := w.establish(ctx, d); err != nil {
			return report, err
		}
		s := newSweep(d, w, o.Rate)
		if s.removeTargets(ctx, report) {
			if report, s.world, err = planAgain(ctx, d, o, report); err != nil {
				return report, errors.Join(report.undeleted(), err)
			}
		}
		s.sweep(ctx, report)
		s.removeJournals(ctx, report)
		s.removeReports(ctx, report)
	}
	report.sort()
	if o.DryRun || o.Only != "" {
		return report, errors.Join(report.undeleted(), report.broken())
	}
	report.Compacted, err = compactJournals(ctx, d, o, w.now.Add(-o.OlderThan))
	return report, errors.Join(report.undeleted(), report.broken(), err)
}

// planAgain decides about EC2 again after targets were removed; the report keeps their outcome.
func planAgain(ctx context.Context, d Deps, o Options, before *Report) (*Report, *world, error) {
	o.Clusters = false // what could not be removed is not retried
	after, w, err := plan(ctx, d, o)
	if err != nil {
		return before, nil, err
	}
	after.Items = slices.DeleteFunc(after.Items, func(i Item) bool { return i.inKubernetes() && !i.stray })
	for _, i := range before.Items {
		if i.inKubernetes() && !i.stray {
			after.Items = append(after.Items, i)
		}
	}
	return after, w, nil
}

// plan lists EC2 before it reads the storage, so that everything listed was made by runs that took their lock before
// the lock is read.
func plan(ctx context.Context, d Deps, o Options) (*Report, *world, error) {
	report, w := &Report{Items: []Item{}, Missing: []Missing{}}, &world{now: time.Now(), region: d.EBS.Region()}
	if err := w.openStorage(ctx, d); err != nil {
		return report, nil, err
	}
	snapshots, err := d.EBS.AllSnapshots(ctx)
	if err != nil {
		return report, nil, failure.Annotate(err, "find snapshots", "")
	}
	volumes, err := d.EBS.AllVolumes(ctx)
	if err != nil {
		return report, nil, failure.Annotate(err, "find volumes", "")
	}
	fast, err := d.EBS.FastRestores(ctx, nil)
	if err != nil {
		return report, nil, failure.Annotate(err, "find fast snapshot restores", "")
	}
	var before time.Time
	if o.KeepRuns != (retention.Span{}) && o.Only == "" {
		before = o.KeepRuns.Before(w.now)
	}
	if err := w.read(ctx, d, snapshots, volumes, fast, before); err != nil {
		return report, nil, err
	}
	j := decider{world: *w, olderThan: o.OlderThan, kept: o.Kept, clusters: o.Clusters}
	for _, s := range snapshots {
		report.add(j.snapshot(s))
	}
	for _, v := range volumes {
		if v.State != ebs.VolumeDeleting && v.State != ebs.VolumeDeleted {
			report.add(j.volume(v))
		}
	}
	report.Items = append(report.Items, j.fastRestores(fast)...)
	report.Items = append(report.Items, j.remains()...)
	report.Items = append(report.Items, j.targets()...)
	report.Items = append(report.Items, j.strayed()...)
	report.Items = append(report.Items, j.orphans()...)
	if w.noLeftovers != nil {
		report.Kubernetes = w.noLeftovers.Error()
	}
	if o.Only == "" {
		report.Missing, err = missing(ctx, d, w, snapshots)
	}
	if !before.IsZero() {
		report.Items = append(report.Items, j.journals(report, before)...)
	}
	if err == nil && o.KeepReports != (retention.Span{}) && !o.Limited() {
		var old []Item
		old, err = oldReports(ctx, d, w, o.KeepReports.Before(w.now))
		report.Items = append(report.Items, old...)
	}
	o.limit(report, w)
	report.sort()
	return report, w, err
}

func (r *Report) add(it Item, ours bool) {
	if !ours {
		r.Elsewhere++
		return
	}
	r.Items = append(r.Items, it)
}

// read reads the storage, including journals older than before, and only what matters of Kubernetes and of snapshot
// locks.
func (w *world) read(
	ctx context.Context, d Deps, snapshots []ebs.Snapshot, volumes []ebs.Volume, fast []ebs.FastRestore,
	before time.Time,
) error {
	if err := w.listRuns(ctx, d); err != nil {
		return err
	}
	if err := w.readBackups(ctx, catalog.Catalog{Store: d.Store}); err != nil {
		return err
	}
	runs := w.old(before)
	var candidates []cluster.SnapshotID
	for _, s := range snapshots {
		id := cluster.RunID(s.Tags[ebs.TagRun])
		if _, sealed := w.named[s.ID]; !sealed && w.known[id] {
			runs, candidates = append(runs, id), append(candidates, s.ID)
		}
	}
	loose := false
	for _, v := range volumes {
		id := cluster.RunID(v.Tags[ebs.TagRun])
		runs = append(runs, id)
		loose = loose || (w.known[id] && v.Instance == "")
	}
	for _, e := range w.backups {
		if e.State == catalog.StateUnsealed {
			runs = append(runs, e.Run)
		}
	}
	of, err := w.operations(ctx, d)
	if err != nil {
		return err
	}
	runs = append(runs, of...)
	if len(fast) > 0 { // restores do not tag snapshots: any run may have enabled them
		for id := range w.known {
			runs = append(runs, id)
		}
	}
	if err := w.readRuns(ctx, d, runs); err != nil {
		return err
	}
	if err := w.readProvisioned(ctx, d); err != nil {
		return err
	}
	w.readLeftovers(ctx, d)
	if loose {
		w.readHandles(ctx, d)
	}
	return w.readLocked(ctx, d, candidates)
}

func (w *world) readHandles(ctx context.Context, d Deps) {
	if w.kube != nil || w.noHandles != nil {
		return // asked already
	}
	if d.Kube == nil {
		w.noHandles = errors.New("no Kubernetes cluster is configured")
		return
	}
	k, err := d.Kube()
	if err == nil {
		w.kubernetes = k.Server()
		w.kubernetesUID, err = k.ClusterUID(ctx)
	}
	if err == nil {
		w.handles, err = k.Handles(ctx)
	}
	w.kube, w.noHandles = k, err
}

func (w *world) readLocked(ctx context.Context, d Deps, ids []cluster.SnapshotID) error {
	w.locked = map[cluster.SnapshotID]ebs.SnapshotLock{}
	if len(ids) == 0 {
		return nil
	}
	locks, err := d.EBS.SnapshotLocks(ctx, ids)
	if err != nil {
		return failure.Annotate(err, "read locks of snapshots", "")
	}
	for _, l := range locks {
		w.locked[l.Snapshot] = l
	}
	return nil
}

// missing finds the snapshots that sealed manifests name but EC2 lacks, in this region.
func missing(ctx context.Context, d Deps, w *world, found []ebs.Snapshot) ([]Missing, error) {
	there := map[cluster.SnapshotID]bool{}
	for _, s := range found {
		there[s.ID] = true
	}
	var unseen []cluster.SnapshotID
	for id, of := range w.named {
		if !there[id] && w.regions[of] == d.EBS.Region() {
			unseen = append(unseen, id)
		}
	}
	out := []Missing{}
	if len(unseen) == 0 {
		return out, nil
	}
	// The tag may have been removed: query by id.
	known, err := d.EBS.DescribeSnapshots(ctx, unseen)
	if err != nil {
		return out, failure.Annotate(err, "describe snapshots", "")
	}
	for _, s := range known {
		there[s.ID] = true
	}
	gone := map[cluster.BackupID][]cluster.SnapshotID{}
	for _, id := range unseen {
		if !there[id] {
			gone[w.named[id]] = append(gone[w.named[id]], id)
		}
	}
	for id, snapshots := range gone {
		slices.Sort(snapshots)
		out = append(out, Missing{Backup: id, Snapshots: snapshots})
	}
	slices.SortFunc(out, func(a, b Missing) int { return cmp.Compare(a.Backup, b.Backup) })
	return out, nil
}
