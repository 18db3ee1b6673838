package gc

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// DeleteOptions are what the user chose.
type DeleteOptions struct {
	Backup cluster.BackupID
	// Run names the backup's run if the storage no longer does: its snapshots are then found by tag alone. Empty to use
	// the storage's.
	Run cluster.RunID
	// Last allows deleting a cluster's only restorable backup.
	Last bool
	// Rate is the number of deletions per second; zero is 1.
	Rate   float64
	DryRun bool
	// Reason is recorded on the tombstone; empty means deleted by a user.
	Reason string
}

// Delete removes a backup: first it buries it, then it deletes its snapshots, then its objects. All checks come before
// the first change: it refuses, with a Conflict, a backup that is pinned, whose run is alive, that a restore is
// reading, that has a locked snapshot, or that is its cluster's last (unless Last). After an error, call it again or
// leave the rest to Collect. If nothing of the backup exists, the report shows it (Nothing), without an error.
func Delete(ctx context.Context, d Deps, o DeleteOptions) (*Report, error) {
	x := &deletion{Deps: d, opts: o, catalog: catalog.Catalog{Store: d.Store}, world: &world{now: time.Now()}}
	report := &Report{Items: []Item{}, Missing: []Missing{}}
	if err := x.world.openStorage(ctx, d); err != nil {
		return report, err
	}
	if err := x.read(ctx); err != nil {
		return report, err
	}
	found, err := x.find(ctx)
	if err != nil {
		return report, err
	}
	if err := x.check(ctx, found); err != nil {
		return report, err
	}
	report.Items = append(report.Items, found...)
	if report.Nothing = len(report.Items) == 0; report.Nothing {
		report.Near = x.near()
	}
	if o.DryRun || report.Nothing {
		report.sort()
		return report, nil
	}
	if err := x.world.establish(ctx, d); err != nil {
		return report, err
	}
	if x.there {
		if err := x.bury(ctx); err != nil {
			return report, err
		}
	}
	s := newSweep(d, x.world, o.Rate)
	s.sweep(ctx, report)
	report.sort()
	return report, report.undeleted()
}

// deletion is one backup being deleted.
type deletion struct {
	Deps
	opts    DeleteOptions
	catalog catalog.Catalog
	world   *world

	leaving  map[cluster.BackupID]bool // deleted together with it
	there    bool                      // the storage has objects of it
	entry    catalog.Entry
	manifest *manifest.Manifest // nil if it cannot be read
	runs     []*run             // of the storage, those of this backup
}

// read reads the backup, the others, and the runs that made or restored it.
func (x *deletion) read(ctx context.Context) error {
	if err := manifest.CheckID(x.opts.Backup); err != nil {
		return err
	}
	if err := x.world.readAll(ctx, x.Deps); err != nil {
		return err
	}
	return x.pick(ctx)
}

// readAll reads every backup and every run of the storage.
func (w *world) readAll(ctx context.Context, d Deps) error {
	if err := w.readBackups(ctx, catalog.Catalog{Store: d.Store}); err != nil {
		return err
	}
	if err := w.listRuns(ctx, d); err != nil {
		return err
	}
	return w.readRuns(ctx, d, slices.Collect(maps.Keys(w.known)))
}

// pick selects what concerns the backup from the world.
func (x *deletion) pick(ctx context.Context) error {
	x.entry, x.there = x.world.backups[x.opts.Backup]
	var err error
	x.manifest, err = x.catalog.Unsealed(ctx, x.opts.Backup)
	switch {
	case err == nil, failure.Is(err, failure.NotFound), failure.Is(err, failure.Corrupt),
		failure.Is(err, failure.Usage):
	default:
		return err
	}
	for _, r := range x.world.runs {
		if r.Backup == x.opts.Backup {
			x.runs = append(x.runs, r)
		}
	}
	return nil
}

// makers returns the runs that may have made the backup's snapshots: backup ids are unique only within a storage, so
// the id tag alone is not enough.
func (x *deletion) makers() []cluster.RunID {
	ids := []cluster.RunID{x.opts.Run, x.entry.Run}
	if x.manifest != nil {
		ids = append(ids, x.manifest.Run)
	}
	for _, r := range x.runs {
		if r.makes() {
			ids = append(ids, r.ID)
		}
	}
	slices.Sort(ids)
	return slices.DeleteFunc(slices.Compact(ids), func(id cluster.RunID) bool { return id == "" })
}

// find lists the snapshots that the manifest names, those that only tags name, and the backup itself.
func (x *deletion) find(ctx context.Context) ([]Item, error) {
	if x.manifest != nil && x.manifest.Adopted() {
		return x.adopted(), nil
	}
	found := map[cluster.SnapshotID]ebs.Snapshot{}
	if x.manifest != nil {
		named, err := x.EBS.DescribeSnapshots(ctx, x.manifest.SnapshotIDs())
		if err != nil {
			return nil, failure.Annotate(err, "describe snapshots", string(x.opts.Backup))
		}
		for _, s := range named {
			found[s.ID] = s
		}
	}
	for _, id := range x.makers() {
		tagged, err := x.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(id), ebs.TagBackup: string(x.opts.Backup)})
		if err != nil {
			return nil, failure.Annotate(err, "find snapshots", "run "+string(id))
		}
		for _, s := range tagged {
			found[s.ID] = s
		}
	}
	var out []Item
	for id, s := range found {
		it := item(KindSnapshot, string(id), s.Tags, s.SizeGiB)
		it.Backup = x.opts.Backup
		if of, named := x.world.named[id]; named && of != x.opts.Backup {
			out = append(out, it.decided(ActionInUse, "sealed backup %s names it", of))
			continue
		}
		if kept, is := x.world.another(it, s.Tags); is {
			out = append(out, kept)
			continue
		}
		out = append(out, it.decided(ActionDelete, "its backup is being removed"))
	}
	if x.there {
		out = append(out, x.itself().decided(ActionDelete, "asked for"))
	}
	return out, nil
}

// itself is the backup as an item.
func (x *deletion) itself() Item {
	return Item{
		Kind: KindBackup, ID: string(x.opts.Backup), Backup: x.opts.Backup, Run: x.entry.Run,
		Cluster: name(x.entry.Cluster), SizeGiB: x.entry.SizeGiB,
	}
}

// adopted lists a backup that was made of parts, without its snapshots: they are those of the parts, in whose storages
// they are deleted.
func (x *deletion) adopted() []Item {
	var parts []string
	for _, p := range x.manifest.Parts {
		parts = append(parts, p.Location)
	}
	return []Item{x.itself().decided(ActionDelete,
		"asked for; its parts keep the snapshots, and are pinned in %s", strings.Join(parts, " and "))}
}

// NothingOf is the error about a backup of which neither the storage nor EC2 has anything; near are similar names.
func NothingOf(id cluster.BackupID, near []string) error {
	err := failure.New(failure.NotFound, "delete backup", string(id), "nothing of it was found")
	if len(near) > 0 {
		return err.WithHint("did you mean %s? see `tisnap list`", strings.Join(near, ", "))
	}
	return err.WithHint("see `tisnap list`")
}

// near returns similar names, in case the user misspelt the backup's.
func (x *deletion) near() []string {
	var names []string
	for id := range x.world.backups {
		names = append(names, string(id))
	}
	slices.Sort(names)
	return failure.Nearest(string(x.opts.Backup), names, 3)
}

// check refuses what must not be deleted, before any change.
func (x *deletion) check(ctx context.Context, found []Item) error {
	refuse := func(format string, args ...any) *failure.Error {
		return failure.New(failure.Conflict, "delete backup", string(x.opts.Backup), format, args...)
	}
	if x.manifest != nil && x.manifest.Region != x.EBS.Region() {
		return failure.New(failure.Usage, "delete backup", string(x.opts.Backup), "its snapshots are in %s",
			x.manifest.Region).
			WithHint("delete it with --region %s", x.manifest.Region)
	}
	for _, it := range found {
		if it.Kind == KindSnapshot && it.Action == ActionKeep {
			return refuse("snapshot %s stays: %s", it.ID, it.Reason).
				WithHint("delete the backup in the storage that made it")
		}
	}
	if pin := x.world.pin(x.opts.Backup, x.entry.Run); pin != nil {
		return x.pinned(pin)
	}
	for _, r := range x.runs {
		if why := x.world.alive(r); why != "" {
			return refuse("run %s (%s) uses it: %s", r.ID, r.Operation, why).WithHint("wait for that run, or stop it")
		}
	}
	if user, err := x.copied(ctx); err != nil {
		return err
	} else if user != nil {
		return refuse("it is being copied into another storage: %s has a lease on it", user).
			WithHint("wait for that run, or stop it")
	}
	if x.entry.State == catalog.StateSealed {
		if err := x.checkLast(ctx, x.leaving); err != nil {
			return err
		}
	}
	return x.checkLocks(ctx, found, refuse)
}
