package cli

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/retention"
	"github.com/tisnap/tisnap/pkg/storage"
)

type gcFlags struct {
	removal

	olderThan   time.Duration
	keepRuns    retention.Span
	keepReports retention.Span
	kept        bool
	clusters    bool
	run         string
	adopt       string
	of          []cluster.Name
}

func (a *app) gcCommand() *cobra.Command {
	f := gcFlags{keepRuns: retention.Span{Days: 400}, keepReports: retention.Span{Days: 400}}
	cmd := &cobra.Command{
		Use:   "gc [NAMESPACE/CLUSTER...]",
		Short: "Delete what dead or failed runs left in the account",
		Long: `Delete what dead or failed runs left in the account.

Snapshots and volumes are found in EC2 by their run tag and compared with the storage in
both directions. Only those of runs with a journal in this storage are considered, and
deleted only if the run is neither alive nor younger than --older-than. Naming clusters
(the source of a backup or the target of a restore) or --run-id limits gc to their runs; a
limited gc sends no metrics.

Never deleted: snapshots that a sealed backup names or that are locked; volumes that are
attached, that a persistent volume of this Kubernetes cluster names, or whose restored
cluster has served. Fast snapshot restore that a dead restore left enabled is disabled, and
objects of backups that were never sealed are removed. Whatever is kept in doubt is listed
with the reason. What a dead restore left in Kubernetes (its cluster, claims and
persistent volumes) is listed with its run; --cluster deletes it together with its volumes,
unless the cluster serves or a resolve is working on it, and removes what dead drills left.

The journal of each ended run is compacted into one object, and deleted --keep-runs after the
run's end unless its backup, or anything else that it made, still exists. The report of a run
whose backup was deleted is kept for --keep-reports. Sealed backups whose snapshots are gone
are reported (exit 10).

On a terminal it shows what would be deleted and asks; otherwise it needs --yes.`,
		Example: `  # show what would be deleted, and why the rest would not
  tisnap gc --storage s3://backups/prod --dry-run

  # do it
  tisnap gc --storage s3://backups/prod --yes

  # only what one cluster's runs left
  tisnap gc tidb/prod --storage s3://backups/prod --yes

  # including clusters that dead restores left in Kubernetes
  tisnap gc --storage s3://backups/prod --cluster --yes`,
		ValidArgsFunction: a.completeMoreClusters,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.of, err = a.parseClusters(args); err == nil {
				err = f.validate(a.asks())
			}
			if err != nil {
				return usage(cmd, err)
			}
			return a.gc(cmd, f)
		},
	}
	fl := cmd.Flags()
	fl.DurationVar(&f.olderThan, "older-than", time.Hour,
		"keep what a run left if its journal was written to within this time")
	fl.Var(&f.keepRuns, "keep-runs", "keep the journals of runs that ended within this time, such as 1y6m or 400d")
	fl.Var(&f.keepReports, "keep-reports", "keep the reports of runs within this time after their backup is deleted")
	fl.BoolVar(&f.kept, "kept", false, "also delete what failed restores with --keep-on-failure made")
	fl.BoolVar(&f.clusters, "cluster", false,
		"also delete what unfinished restores and dead drills left in this Kubernetes cluster")
	fl.StringVar(&f.run, "run-id", "", "only what this run left")
	choose(cmd, fl, &f.adopt, "adopt-storage", optional(storage.Moved, storage.Copied),
		"first give a copied storage its own identity; moved: the original is gone, copied: both stay in use")
	f.add(fl)
	a.metricsFlags(cmd)
	a.offer(cmd, "run-id",
		func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return a.completeRuns(cmd, nil, toComplete) // whatever cluster precedes it
		})
	return cmd
}

func (f *gcFlags) validate(asks bool) error {
	if f.olderThan < 0 {
		return fmt.Errorf("--older-than %s: want 0 or more", f.olderThan)
	}
	if f.run != "" && !runIDs().MatchString(f.run) {
		return fmt.Errorf("--run-id %q: want up to 40 lower-case letters, digits and hyphens", f.run)
	}
	if f.adopt != "" && f.dryRun {
		return errors.New("--adopt-storage writes to the storage and cannot be combined with --dry-run")
	}
	if f.adopt != "" && !f.yes {
		return errors.New("--adopt-storage writes to the storage before it is known what would be deleted: pass --yes")
	}
	return f.removal.validate(asks)
}

func (a *app) gc(cmd *cobra.Command, f gcFlags) error {
	if err := a.announce.validate(); err != nil {
		return usage(cmd, err)
	}
	o := gc.Options{
		OlderThan: f.olderThan, KeepRuns: f.keepRuns, KeepReports: f.keepReports, Kept: f.kept, Clusters: f.clusters,
		Only: cluster.RunID(f.run), Of: f.of, Rate: f.rate, DryRun: f.dryRun,
	}
	if !o.Limited() {
		if f.yes || f.dryRun { // otherwise there is nothing to announce before the user confirms
			a.toAnnounce(cmd, nil) // even for a dry run: its findings are worth a metric
		}
	} else if a.announce != (announceFlags{}) {
		a.warn(errors.New("no metrics sent: they cover everything that runs left, and this gc is limited"))
	}
	ctx := cmd.Context()
	deps, done, err := a.gcDeps(ctx)
	if err != nil {
		return err
	}
	defer done()
	if deps.Owner, err = newOwner(cmd); err != nil {
		return err
	}
	if f.adopt != "" {
		if _, err := storage.Adopt(ctx, deps.Store, f.adopt); err != nil {
			return err
		}
	}
	if err := a.confirmRemoval(ctx, &f.removal, "delete what runs left?", func() (document, error) {
		plan := o
		plan.DryRun = true
		report, err := a.collect(ctx, deps, plan)
		return newGCDoc("GarbageReport", true, report), err
	}); err != nil {
		return err
	}
	defer a.removing(&f.removal)()
	report, err := a.collect(ctx, deps, o)
	doc := newGCDoc("GarbageReport", f.dryRun, report)
	if !o.Limited() {
		a.toAnnounce(cmd, doc)
	}
	return a.printGC(doc, err)
}

// collect is gc.Collect. One that is not limited, and may delete clusters, removes what dead drills left before that.
func (a *app) collect(ctx context.Context, deps gc.Deps, o gc.Options) (*gc.Report, error) {
	if !o.Clusters || o.Limited() {
		return gc.Collect(ctx, deps, o)
	}
	drills, left := a.gcDrills(ctx, deps.Store, o)
	expired, err := a.expiredItems(ctx, deps.Store)
	a.warn(err)
	drills = append(drills, expired...)
	report, err := gc.Collect(ctx, deps, o)
	if report != nil && len(drills) > 0 {
		report.Items = append(drills, report.Items...)
	}
	return report, errors.Join(left, err)
}

// gcDeps connects to EC2 and the storage, and to Kubernetes on first use. done closes the connections.
func (a *app) gcDeps(ctx context.Context) (deps gc.Deps, done func(), err error) {
	deps, done, err = a.abortDeps(ctx)
	if err != nil {
		return gc.Deps{}, nil, err
	}
	if deps.EBS, err = deps.Connect(); err != nil {
		done()
		return gc.Deps{}, nil, err
	}
	return deps, done, nil
}

// abortDeps is gcDeps that connects to EC2 on first use, too.
func (a *app) abortDeps(ctx context.Context) (deps gc.Deps, done func(), err error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return gc.Deps{}, nil, err
	}
	store, err := c.store(ctx)
	if err != nil {
		c.close()
		return gc.Deps{}, nil, err
	}
	return gc.Deps{
		Store: store, Tool: a.version.Version, Watching: a.watching,
		Connect: sync.OnceValues(func() (gc.EBS, error) { return c.ebs(ctx) }),
		Kube:    func() (gc.Kube, error) { return c.kube() },
	}, c.close, nil
}

// printGC prints what was found even if not all of it could be deleted.
func (a *app) printGC(d *gcDoc, err error) error {
	if err != nil && len(d.Items) == 0 && len(d.Missing) == 0 && !d.Nothing {
		return err
	}
	return errors.Join(err, a.print(d))
}
