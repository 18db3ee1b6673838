package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/runs"
)

func (a *app) restoreAbortCommand() *cobra.Command {
	var f removal
	cmd := &cobra.Command{
		Use:   "abort RUN",
		Short: "Remove everything that a killed or failed restore left",
		Long: `Remove everything that a killed or failed restore left.

That is its cluster, claims and persistent volumes, the Jobs that filled volumes, with
their claims, its EBS volumes, and any fast snapshot restore that it enabled. The run's id
is in the restore's output, on everything that it made (tisnap.io/run), and in the output
of tisnap gc.

It refuses, without deleting anything, while the run is alive or another run has the
cluster, and if the cluster has served or may serve: finish such a restore with tisnap
resolve, or delete it by hand. It is safe to run again.

On a terminal it shows what would be deleted and asks; otherwise it needs --yes.`,
		Example: `  # what would be deleted
  tisnap restore abort 20261121t100000-5bba77d4 --storage s3://backups/prod --dry-run

  # do it
  tisnap restore abort 20261121t100000-5bba77d4 --storage s3://backups/prod --yes`,
		Args:              exactly("RUN"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !runIDs().MatchString(args[0]) {
				return usage(cmd, fmt.Errorf("run %q: want up to 40 lower-case letters, digits and hyphens", args[0]))
			}
			if err := f.validate(a.asks()); err != nil {
				return usage(cmd, err)
			}
			return a.abortRestore(cmd, f, cluster.RunID(args[0]))
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (a *app) abortRestore(cmd *cobra.Command, f removal, run cluster.RunID) error {
	ctx := cmd.Context()
	deps, done, err := a.abortDeps(ctx)
	if err != nil {
		return err
	}
	defer done()
	if deps.Owner, err = newOwner(cmd); err != nil {
		return err
	}
	o := gc.AbortOptions{Run: run, Rate: f.rate, DryRun: true}
	if err := a.confirmRemoval(ctx, &f, fmt.Sprintf("abort restore %s?", run), func() (document, error) {
		plan, err := gc.Abort(ctx, deps, o)
		return newGCDoc("RestoreAbort", true, plan), err
	}); err != nil {
		return err
	}
	defer a.removing(&f)()
	o.DryRun = f.dryRun
	report, err := gc.Abort(ctx, deps, o)
	if err == nil && !f.dryRun {
		err = runs.End(ctx, deps.Store, run, "it was aborted")
	}
	return a.printGC(newGCDoc("RestoreAbort", f.dryRun, report), err)
}
