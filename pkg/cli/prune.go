package cli

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/retention"
)

type pruneFlags struct {
	removal

	policy    retention.Policy
	allowFull bool
}

func (a *app) pruneCommand() *cobra.Command {
	var f pruneFlags
	cmd := &cobra.Command{
		Use:   "prune [NAMESPACE/CLUSTER...]",
		Short: "Delete the backups that no rule keeps",
		Long: `Delete the backups that no rule keeps, the oldest first.

The rules follow restic forget. A backup is kept if any rule keeps it: --keep-daily 7 keeps
the newest backup of each of the last 7 days that have one, and so on; -1 keeps all. Days
are in UTC. While a rule has periods left, the oldest backup is kept too. Each cluster is
pruned separately.

On a terminal it shows what would be deleted and asks; otherwise it needs --yes.

Always kept, whatever the rules: a cluster's newest restorable backup, backups in use by a
live run, backups that are pinned or have a locked snapshot, and, of copies, the newest of each
volume: without it EC2 makes the next copy in full (--allow-full). Backups that are unsealed or
cannot be restored do not count and are kept: use tisnap delete or tisnap gc for them. Run the
command again to finish a prune that failed or was killed.`,
		Example: `  # show what would be deleted, and which rule keeps the rest
  tisnap prune --storage s3://backups/prod --keep-daily 7 --keep-weekly 4 --dry-run

  # do it, for one cluster
  tisnap prune tidb/prod --storage s3://backups/prod --keep-within 14d --keep-tag release --yes`,
		ValidArgsFunction: a.completeMoreClusters,
		RunE: func(cmd *cobra.Command, args []string) error {
			clusters, err := a.parseClusters(args)
			if err == nil {
				err = f.validate(a.asks())
			}
			if err != nil {
				return usage(cmd, err)
			}
			return a.prune(cmd.Context(), f, clusters)
		},
	}
	keepFlags(cmd.Flags(), &f.policy)
	cmd.Flags().BoolVar(&f.allowFull, "allow-full", false,
		"also delete the newest copy of a volume, after which EC2 makes the next copy of it in full")
	f.add(cmd.Flags())
	a.localFlag(cmd)
	return cmd
}

// keepFlags adds the rules for what is kept.
func keepFlags(fl *pflag.FlagSet, p *retention.Policy) {
	for _, rule := range []struct {
		value      *int
		name, what string
	}{
		{&p.Last, "last", "this many of the newest backups"},
		{&p.Hourly, "hourly", "the newest backup of each of this many hours"},
		{&p.Daily, "daily", "the newest backup of each of this many days"},
		{&p.Weekly, "weekly", "the newest backup of each of this many weeks, starting on Monday"},
		{&p.Monthly, "monthly", "the newest backup of each of this many months"},
		{&p.Yearly, "yearly", "the newest backup of each of this many years"},
	} {
		fl.IntVar(rule.value, "keep-"+rule.name, 0, "keep "+rule.what)
	}
	fl.Var(&p.Within, "keep-within",
		"keep all backups made within this time before the newest one, such as 1y6m, 14d or 2d12h")
	fl.StringSliceVar(&p.Tags, "keep-tag", nil,
		"keep all backups with this tag; with several, those that have any of them")
}

func (f *pruneFlags) validate(asks bool) error {
	if err := f.policy.Validate(); err != nil {
		return err
	}
	return f.removal.validate(asks)
}

// parseClusters parses NAMESPACE/CLUSTER, or CLUSTER in the namespace that backup would use.
func (a *app) parseClusters(args []string) ([]cluster.Name, error) {
	var out []cluster.Name
	for _, arg := range args {
		name, err := a.global.clusterName(arg)
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	return out, nil
}

func (a *app) prune(ctx context.Context, f pruneFlags, clusters []cluster.Name) error {
	deps, done, err := a.gcDeps(ctx)
	if err != nil {
		return err
	}
	defer done()
	o := gc.PruneOptions{Policy: f.policy, Clusters: clusters, Rate: f.rate, AllowFull: f.allowFull, DryRun: true}
	if err := a.confirmRemoval(ctx, &f.removal, "delete these backups?", func() (document, error) {
		plan, err := gc.Prune(ctx, deps, o)
		return newPruneDoc(true, plan), err
	}); err != nil {
		return err
	}
	defer a.removing(&f.removal)()
	o.DryRun = f.dryRun
	report, err := gc.Prune(ctx, deps, o)
	return a.printDeletions(newPruneDoc(f.dryRun, report), err)
}
