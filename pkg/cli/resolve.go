package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/restore"
)

type resolveFlags struct {
	backup, run       string
	onTasks           restore.OnTasks
	pdState           restore.PDStatePolicy
	verifyKey         string
	flash             flashbackFlags
	archive           archivedFlags
	tolerate          []uint
	waitApply, serial bool
	timeout           time.Duration
	lockWait          lockWait
	force, dryRun     bool
}

func (a *app) resolveCommand() *cobra.Command {
	var f resolveFlags
	cmd := &cobra.Command{
		Use:   "resolve CLUSTER --backup BACKUP",
		Short: "Bring a cluster in recovery mode to a backup's ts: the second half of a restore, on its own",
		Long: `Bring a cluster in recovery mode to a backup's ts: the second half of a restore, on its own.

Use it after a restore that was killed, or that kept its cluster when it failed. It asks
the stores what they hold, gives every region the leader with the best log, returns every
key to the backup ts, and takes the stores out of recovery mode. A killed run leaves its
progress in --storage, and the next one resumes there with the same timestamps. A failed
run leaves the cluster in recovery mode for the next try.

It refuses a cluster that serves, and volumes known to be from another backup. --dry-run
asks the stores and prints the plan: leaders, overlaps, and what would be lost. After a
restore from an archive give --from-archive and its flags again; BACKUP is then an archive.`,
		Example: `  # show the plan
  tisnap resolve tidb/copy --backup prod-20261121-100000 --storage s3://backups/prod --dry-run

  # the restore's process is known to be dead: do not watch its lock for a minute
  tisnap resolve tidb/copy --backup prod-20261121-100000 --storage s3://backups/prod --force

  # one store's volume is lost; every region has a quorum on the others
  tisnap resolve tidb/copy --backup prod-20261121-100000 --storage s3://backups/prod --tolerate-store 4`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: a.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.validate(); err != nil {
				return usage(cmd, err)
			}
			return a.resolve(cmd, f, args[0])
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.backup, "backup", "", "the sealed backup that the cluster's volumes were made from (required)")
	fl.StringVar(&f.run, "run-id", "",
		"id of the run; resumes that run if its process died (default: generated from the time)")
	tolerateFlag(cmd, &f.tolerate)
	fl.DurationVar(&f.timeout, "timeout", time.Hour, "how long to wait for the stores, and for TiDB")
	f.lockWait.add(cmd)
	f.archive.add(cmd)
	fl.BoolVar(&f.force, "force", false, "break a dead run's lock without watching it")
	fl.BoolVar(&f.dryRun, "dry-run", false, "ask the stores and print the plan; change nothing")
	onTasksFlag(cmd, &f.onTasks)
	waitApplyFlag(cmd, &f.waitApply)
	serialFlag(cmd, &f.serial)
	f.flash.add(cmd)
	pdStateFlag(cmd, &f.pdState)
	verifyKeyFlag(cmd, &f.verifyKey)
	a.notifyFlag(cmd)
	a.metricsFlags(cmd)
	a.offer(cmd, "backup",
		func(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
			return a.completeBackups(cmd, nil, toComplete) // whatever cluster precedes it
		})
	return cmd
}

// onTasksFlag is the same for every command that flashes back.
func onTasksFlag(cmd *cobra.Command, value *restore.OnTasks) {
	choose(cmd, cmd.Flags(), value, "on-tasks", restore.TaskChoices(),
		"what to do if a log backup or a changefeed reads the restored cluster's changes")
}

// waitApplyFlag is the same for every command that flashes back.
func waitApplyFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "wait-apply", false,
		"before the flashback, wait until every store reports all logs applied (10s or more); the data is the same "+
			"without it")
}

// serialFlag is the same for every command that restores.
func serialFlag(cmd *cobra.Command, value *bool) {
	cmd.Flags().BoolVar(value, "serial", false,
		"run steps one after another instead of overlapping independent ones")
}

// tolerateFlag is the same for every command that waits for the stores of a backup.
func tolerateFlag(cmd *cobra.Command, value *[]uint) {
	cmd.Flags().UintSliceVar(value, "tolerate-store", nil,
		"id of a store to restore without, if every region has a quorum on the others; may be repeated")
}

// tolerated are the stores of --tolerate-store.
func tolerated(ids []uint) ([]cluster.StoreID, error) {
	var out []cluster.StoreID
	for _, id := range ids {
		if id == 0 {
			return nil, errors.New("--tolerate-store 0: store ids start at 1")
		}
		out = append(out, cluster.StoreID(id))
	}
	return out, nil
}

func (f *resolveFlags) validate() error {
	switch {
	case f.backup == "":
		return errors.New("--backup BACKUP is missing")
	case f.timeout < time.Second:
		return fmt.Errorf("--timeout %s: want at least 1s", f.timeout)
	}
	if err := f.archive.validate(f.verifyKey, latestFlags{}); err != nil {
		return err
	}
	if err := f.lockWait.validate(); err != nil {
		return err
	}
	if _, err := tolerated(f.tolerate); err != nil {
		return err
	}
	return f.flash.validate()
}

func (a *app) resolve(cmd *cobra.Command, f resolveFlags, arg string) error {
	return a.operate(cmd, f.dryRun, func(ctx context.Context, c *connections, s *session) (work, error) {
		deps, opts, err := a.resolveDeps(ctx, cmd, c, s, f, arg)
		if err != nil {
			return work{}, err
		}
		return work{
			id: opts.Run, store: deps.Store, lockWait: opts.LockWait, request: journal.About{
				Operation: journal.Resolve, Cluster: opts.Target, Backup: opts.Backup, Request: opts.ResolveRequest(),
			},
			plan: func(ctx context.Context) (document, error) {
				plan, err := restore.PlanResolve(ctx, deps, opts)
				if err != nil {
					return nil, err
				}
				return resolvePlan(opts, plan), nil
			},
			run: func(ctx context.Context) (document, error) {
				result, err := restore.Resolve(ctx, deps, opts)
				disown(&opts.Run, &result.Outcome)
				doc := resolveResult(ctx, opts, result, err)
				return doc, errors.Join(err,
					storeReport(ctx, deps.Store, s.log, doc.Report, &result.Outcome, result.Restored))
			},
		}, nil
	})
}

func (a *app) resolveDeps(
	ctx context.Context, cmd *cobra.Command, c *connections, s *session, f resolveFlags, arg string,
) (restore.Deps, restore.Options, error) {
	var deps restore.Deps
	var opts restore.Options
	k, err := c.kube()
	if err != nil {
		return deps, opts, err
	}
	target, err := cluster.ParseName(arg, k.Namespace())
	if err != nil {
		return deps, opts, err
	}
	store, err := c.store(ctx)
	if err != nil {
		return deps, opts, err
	}
	deps = restore.Deps{
		Kube: k, TiKV: c.tikv(), Store: store, Sink: s.progress, Log: s.log, Remains: a.remains(),
		OpenPD: func(ctx context.Context, addresses []string) (restore.PD, error) {
			return c.targetPD(ctx, k, addresses, target)
		},
	}
	opts = restore.Options{
		Backup: cluster.BackupID(f.backup), Target: target, Tool: a.version.Version,
		Kubernetes: k.Server(),
		Timeout:    f.timeout, OnTasks: f.onTasks, PDState: f.pdState, WaitApply: f.waitApply, BreakLock: f.force,
		Serial: f.serial, LockWait: f.lockWait.limit(),
	}
	f.flash.into(&opts)
	if opts.VerifyKey, err = readVerifyKey(f.verifyKey); err != nil {
		return deps, opts, err
	}
	if opts.TolerateStores, err = tolerated(f.tolerate); err != nil {
		return deps, opts, err
	}
	if f.archive.on {
		archive, err := a.openSource(ctx, c, &f.archive, f.backup, journal.About{}, "")
		if err != nil {
			return deps, opts, err
		}
		region, err := archive.Region()
		if err != nil {
			return deps, opts, err
		}
		if opts.Manifest, err = archive.Manifest(region); err != nil {
			return deps, opts, err
		}
		opts.Backup = opts.Manifest.ID
	}
	run, _, err := continued(ctx, store, s.log, f.run, journal.About{
		Operation: journal.Resolve, Cluster: target, Backup: opts.Backup, Request: opts.ResolveRequest(),
		Kubernetes: k.Server(), KubernetesUID: kubernetesUID(ctx, k, s.log),
	})
	opts.Run, opts.Owner = run, owner(cmd, run)
	return deps, opts, err
}
