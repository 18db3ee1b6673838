package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/preflight"
)

type backupFlags struct {
	name, run                     string
	maxLag, maxHold               time.Duration
	lease, stuck, timeout         time.Duration
	attempts                      int
	steady, steadyTimeout         time.Duration
	consistentNow                 bool
	consistentTimeout             time.Duration
	onImport                      preflight.ImportPolicy
	tiflash                       preflight.TiFlashPolicy
	marks                         backup.MarksPolicy
	earlyApply                    backup.EarlyApplyPolicy
	importTimeout, pendingTimeout time.Duration
	lockWait                      lockWait
	pending                       int
	keepTags, tags                []string
	signKey                       string
	dryRun                        bool
}

func (a *app) backupCommand() *cobra.Command {
	var f backupFlags
	cmd := &cobra.Command{
		Use:   "backup CLUSTER",
		Short: "Take a backup of a running cluster",
		Long: `Take a backup of a running cluster.

Schedulers, GC, imports and raft admin commands are paused for the seconds in which EC2
accepts the snapshots; reads and writes continue. The command then waits for the
snapshots to complete and seals the backup. It exits with 0 only if the backup is sealed.
On any failure it releases the cluster and deletes the run's snapshots.

If the hold breaks, for example because a store restarts, the snapshots are discarded and
the cluster is held again once all stores have been up for --steady, up to --hold-attempts
times. A backup contains everything committed up to its backup ts, which is taken
during the hold; --consistent-now guarantees everything committed before the command started.

The same command resumes a run whose process died. It reuses the run's snapshots if their
cut was proven; otherwise it discards them and holds the cluster again.`,
		Example: `  # a backup of cluster prod in namespace tidb
  tisnap backup prod -n tidb --storage s3://backups/prod

  # show the plan without executing it
  tisnap backup tidb/prod --storage s3://backups/prod --dry-run

  # for scripts: events on stderr, the result as JSON on stdout
  tisnap backup tidb/prod --storage s3://backups/prod --progress json -o json`,
		Args:              exactly("CLUSTER"),
		ValidArgsFunction: a.completeClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("lease") {
				f.lease = 0 // the default yields to a short --max-hold
			}
			if err := f.validate(); err != nil {
				return usage(cmd, err)
			}
			return a.backup(cmd, f, args[0])
		},
	}
	f.add(cmd)
	a.waitFlag(cmd)
	a.notifyFlag(cmd)
	a.metricsFlags(cmd)
	return cmd
}

// add adds the flags to the command.
func (f *backupFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.name, "name", "", "name of the backup (default: CLUSTER and the time)")
	fl.StringVar(&f.run, "run-id", "",
		"id of the run; resumes that run if its process died (default: the cluster's last run if it died and made "+
			"the same request, else generated from the time)")
	fl.DurationVar(&f.maxHold, "max-hold", 2*time.Minute, "maximum duration of each hold")
	fl.DurationVar(&f.lease, "lease", 30*time.Second,
		"how long the cluster stays held if this process dies; at least 3s and less than --max-hold")
	fl.IntVar(&f.attempts, "hold-attempts", 3, "maximum number of holds, if one breaks")
	fl.DurationVar(&f.steady, "steady", 16*time.Second,
		"how long all stores must be up without a restart before the cluster is held again; EC2 accepts one snapshot "+
			"per volume every 15s, so with less the wait moves into the hold")
	fl.DurationVar(&f.steadyTimeout, "steady-timeout", 5*time.Minute, "how long to wait for --steady")
	fl.BoolVar(&f.consistentNow, "consistent-now", false,
		"first wait until the backup will contain everything committed before the command started")
	fl.DurationVar(&f.consistentTimeout, "consistent-timeout", 10*time.Minute, "how long --consistent-now may wait")
	choose(cmd, fl, &f.onImport, "on-import", preflight.ImportPolicies(),
		"what to do if TiDB Lightning, br restore or IMPORT INTO is running")
	fl.DurationVar(&f.pendingTimeout, "pending-timeout", time.Hour,
		"how long to wait, before the hold, for volumes with too many pending snapshots")
	fl.DurationVar(&f.importTimeout, "import-timeout", time.Hour, "how long --on-import=wait may wait")
	tiflashFlag(cmd, &f.tiflash)
	choose(cmd, fl, &f.marks, "marks", backup.MarksPolicies(),
		"before the hold, read where each region's raft log ends, so that a restore flashes back only changed regions")
	choose(cmd, fl, &f.earlyApply, "early-apply", backup.EarlyApplyPolicies(),
		"TiKV's early apply during the cut: prevent turns it off where possible, require fails where it is not")
	fl.DurationVar(&f.maxLag, "max-lag", 5*time.Minute, "how far the resolved ts may lag behind")
	fl.DurationVar(&f.stuck, "stuck", 2*time.Hour, "how long snapshots may make no progress")
	fl.DurationVar(&f.timeout, "timeout", 48*time.Hour, "how long to wait for the snapshots to complete")
	fl.IntVar(&f.pending, "pending-quota", 0,
		"the account's quota of pending snapshots (default: from Service Quotas, else 100)")
	fl.StringSliceVar(&f.keepTags, "keep-tags", nil,
		"volume tag keys to copy to the snapshots; no others are copied")
	fl.StringSliceVar(&f.tags, "tag", nil,
		"label, such as release-8.5; used by tisnap prune --keep-tag; may be repeated")
	fl.StringVar(&f.signKey, "sign-key", "",
		"minisign secret key file that signs the seal; "+signKeyVariable+" holds its password, if any")
	f.lockWait.add(cmd)
	fl.BoolVar(&f.dryRun, "dry-run", false, "check everything and print the plan; change nothing")
}

func (f *backupFlags) validate() error {
	for _, d := range []struct {
		flag  string
		value time.Duration
		min   time.Duration
	}{
		{"max-hold", f.maxHold, time.Second}, {"max-lag", f.maxLag, time.Second},
		{"stuck", f.stuck, time.Second}, {"timeout", f.timeout, time.Second},
		{"steady", f.steady, 0}, {"steady-timeout", f.steadyTimeout, time.Second},
		{"consistent-timeout", f.consistentTimeout, time.Second}, {"import-timeout", f.importTimeout, time.Second},
		{"pending-timeout", f.pendingTimeout, time.Second},
	} {
		if d.value < d.min {
			return fmt.Errorf("--%s %s: want at least %s", d.flag, d.value, d.min)
		}
	}
	if f.pending < 0 {
		return fmt.Errorf("--pending-quota %d: want at least 1, or 0 for AWS's own quota", f.pending)
	}
	if err := f.lockWait.validate(); err != nil {
		return err
	}
	if f.name == catalog.Latest {
		return fmt.Errorf("--name %s: it stands for the newest backup", f.name)
	}
	if f.attempts < 1 {
		return fmt.Errorf("--hold-attempts %d: want at least 1", f.attempts)
	}
	return f.options().Validate()
}

// options returns the options that depend on flags alone.
func (f *backupFlags) options() *backup.Options {
	return &backup.Options{
		LockWait: f.lockWait.limit(),
		MaxLag:   f.maxLag, MaxHold: f.maxHold, Lease: f.lease, PendingQuota: f.pending, KeepTags: f.keepTags,
		Tags: f.tags, Stuck: f.stuck, Timeout: f.timeout,
		HoldAttempts: f.attempts, Steady: max(f.steady, time.Nanosecond), SteadyTimeout: f.steadyTimeout,
		ConsistentNow: f.consistentNow, ConsistentTimeout: f.consistentTimeout,
		OnImport: f.onImport, ImportTimeout: f.importTimeout, PendingTimeout: f.pendingTimeout,
		TiFlash: f.tiflash, Marks: f.marks, EarlyApply: f.earlyApply,
	}
}

func (a *app) backup(cmd *cobra.Command, f backupFlags, arg string) error {
	return a.operate(cmd, f.dryRun, func(ctx context.Context, c *connections, s *session) (work, error) {
		deps, opts, err := a.backupDeps(ctx, cmd, c, s, f, arg)
		if err != nil {
			return work{}, err
		}
		return work{
			id: opts.Run, store: deps.Store, lockWait: opts.LockWait, request: journal.About{
				Operation: journal.Backup, Cluster: opts.Cluster, Backup: opts.Backup, Request: opts.Request(),
			},
			plan: func(ctx context.Context) (document, error) {
				source, err := backup.Plan(ctx, deps, opts)
				if err != nil {
					return nil, err
				}
				return backupPlan(opts, source), nil
			},
			run: func(ctx context.Context) (document, error) {
				past := a.global.pastRuns(ctx, deps.Store)
				eta := a.global.newExpecter(deps.Sink, past)
				deps.Sink, deps.ExpectDuration = eta, eta.ofBackup
				result, err := backup.Run(ctx, deps, opts)
				disown(&opts.Run, &result.Outcome)
				doc := backupResult(ctx, opts, result, err)
				doc.Report.Forward = c.forwarded(doc.Report.Hold)
				if result.Sealed {
					doc.Report.Changed = changedSince(ctx, deps.Store, past, result)
				}
				return doc, errors.Join(err,
					storeReport(ctx, deps.Store, s.log, doc.Report, &result.Outcome, result.Sealed))
			},
		}, nil
	})
}

func (a *app) backupDeps(
	ctx context.Context, cmd *cobra.Command, c *connections, s *session, f backupFlags, arg string,
) (backup.Deps, backup.Options, error) {
	var deps backup.Deps
	var opts backup.Options
	k, err := c.kube()
	if err != nil {
		return deps, opts, err
	}
	name, err := cluster.ParseName(arg, k.Namespace())
	if err != nil {
		return deps, opts, err
	}
	store, err := c.store(ctx)
	if err != nil {
		return deps, opts, err
	}
	e, err := c.ebs(ctx)
	if err != nil {
		return deps, opts, err
	}
	tc, err := k.Cluster(ctx, name)
	if err != nil {
		return deps, opts, err
	}
	p, err := c.sourcePD(ctx, k, &tc)
	if err != nil {
		return deps, opts, err
	}
	opts = *f.options()
	if opts.SignKey, err = readSigningKey(f.signKey); err != nil {
		return deps, opts, err
	}
	id := cluster.BackupID(f.name)
	clusterID, err := p.ClusterID(ctx)
	if err != nil {
		return deps, opts, failure.Annotate(err, "read cluster id", name.String())
	}
	run, before, err := continued(ctx, store, s.log, f.run, journal.About{
		Operation: journal.Backup, Cluster: name, Backup: id, Request: opts.Request(), ClusterID: clusterID,
	})
	if err != nil {
		return deps, opts, err
	}
	if id = cmp.Or(id, before); id == "" {
		id = cluster.BackupID(name.Name + "-" + time.Now().UTC().Format("20060102-150405"))
	}
	deps = backup.Deps{
		Kube: k, PD: p, TiKV: c.tikv(), EarlyApply: c.tikv(), EBS: e, Store: store, Sink: s.progress, Log: s.log,
		Remains: a.remains(),
	}
	opts.Cluster, opts.Backup, opts.Run, opts.Owner, opts.Tool = name, id, run, owner(cmd, run), a.version.Version
	return deps, opts, nil
}
