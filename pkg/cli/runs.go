package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/underway"
)

func (a *app) runsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "Show runs, and undo one that died",
		Long: `Show runs, and undo one that died.

Every backup, restore and resolve keeps a journal in the storage. A run whose process died is
unfinished: the same command resumes it, and runs abort undoes it.`,
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.runsListCommand(), a.runsDescribeCommand(), a.runsAbortCommand())
	return cmd
}

// runsDoc is the output of `tisnap runs list`.
type runsDoc struct {
	header
	Items []runs.Run `json:"items"`

	now time.Time
}

func (a *app) runsListCommand() *cobra.Command {
	var filter listFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the runs in a storage",
		Long: `List the runs in a storage, newest first, with their state: running ones hold their cluster's
lock, those shown as "dead?" hold it but do not renew it, and dead ones ("unfinished" in JSON) can be
resumed or aborted. Nothing is changed.`,
		Example: "  tisnap runs list --storage s3://backups/prod\n  tisnap runs list --storage s3://backups/prod -o " +
			"json",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			match, err := filter.matcher(cmd, a.global.namespace)
			if err != nil {
				return err
			}
			items, err := a.runs(cmd.Context())
			if err != nil {
				return err
			}
			chosen := slices.DeleteFunc(append([]runs.Run{}, items...), func(r runs.Run) bool {
				return !match(r.Cluster,
					map[string]string{
						"state": string(r.State), "operation": string(r.Operation), "backup": string(r.Backup),
					})
			})
			return a.print(&runsDoc{header: newHeader("RunList"), Items: chosen, now: time.Now()})
		},
	}
	a.localFlag(cmd)
	filter.add(cmd, "namespace, cluster, state, operation, backup")
	return cmd
}

func (a *app) runs(ctx context.Context) ([]runs.Run, error) {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return runs.List(ctx, store)
}

func (d *runsDoc) table(w io.Writer, v view) error {
	if len(d.Items) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	t := newTable(v.heading("STARTED"), "RUN", "OPERATION", "CLUSTER", "BACKUP", "STATE", "STEP", "LAST RECORD")
	t.drop = []string{"LAST RECORD", "STEP", "BACKUP", "CLUSTER", v.heading("STARTED"), "OPERATION"}
	for _, r := range d.Items {
		last, of := "", ""
		if !r.Last.IsZero() {
			last = d.now.Sub(r.Last).Truncate(time.Second).String() + " ago"
		}
		if r.Cluster != (cluster.Name{}) {
			of = r.Cluster.String()
		}
		t.row(v.cell(r.Started), r.ID, r.Operation, of, r.Backup, shown(&r), r.Step, last)
	}
	return t.write(w, v)
}

// shown returns the state for users; scripts get "unfinished" for dead, and "silent".
func shown(r *runs.Run) string {
	switch {
	case r.Silent:
		return "dead?"
	case r.State == runs.Unfinished:
		return "dead"
	}
	return string(r.State)
}

// runDoc is the output of `tisnap runs describe`.
type runDoc struct {
	header
	runs.Run
	Progress *underway.Progress `json:"progress,omitempty"`
}

func newRunDoc(r *runs.Run, now time.Time) *runDoc {
	return &runDoc{header: newHeader("Run"), Run: *r, Progress: progressOf(r, now)}
}

func (a *app) runsDescribeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe RUN|BACKUP",
		Short: "Show one run: its progress and processes",
		Long: `Show one run, or the one that made a backup: its processes and the gaps between them, its phase
and step, how long it runs and when it should end, who holds its lock, and how to resume or undo it.
Nothing is changed.`,
		Example:           "  tisnap runs describe 20261122t100000-1a2b3c4d --storage s3://backups/prod",
		Args:              exactly("RUN|BACKUP"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.describeRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.print(newRunDoc(r, time.Now()))
		},
	}
	a.localFlag(cmd)
	return cmd
}

func (a *app) readRun(ctx context.Context, arg string) (*runs.Run, error) {
	id, err := runID(arg)
	if err != nil {
		return nil, err
	}
	return a.withRun(ctx, string(id), func(_ objstore.Store, r *runs.Run) (*runs.Run, error) { return r, nil })
}

// describeRun checks a run that seems dead twice: with a skewed clock a live one looks dead.
func (a *app) describeRun(ctx context.Context, arg string) (*runs.Run, error) {
	return a.withRun(ctx, arg, func(store objstore.Store, r *runs.Run) (*runs.Run, error) {
		if r.Silent {
			_, _ = fmt.Fprintf(a.streams.Err,
				"run %s has not renewed its lock since %s: checking again in a few seconds\n",
				oneLine(r.ID), r.RenewedAt.Format(time.RFC3339))
		}
		return runs.LookAgain(ctx, store, r)
	})
}

func (a *app) withRun(
	ctx context.Context, arg string, then func(objstore.Store, *runs.Run) (*runs.Run, error),
) (*runs.Run, error) {
	store, done, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := runOf(ctx, store, arg)
	if err != nil {
		return nil, err
	}
	return then(store, r)
}

// runOf reads the run of this id, or that made the backup of this name.
func runOf(ctx context.Context, store objstore.Store, arg string) (*runs.Run, error) {
	var missing error
	if runIDs().MatchString(arg) {
		r, err := runs.Read(ctx, store, cluster.RunID(arg))
		if !failure.Is(err, failure.NotFound) {
			return r, err
		}
		missing = err
	}
	if err := manifest.CheckID(cluster.BackupID(arg)); err != nil {
		return nil, cmp.Or(missing, err)
	}
	id, err := catalog.Catalog{Store: store}.RunOf(ctx, cluster.BackupID(arg))
	switch {
	case failure.Is(err, failure.NotFound):
		return nil, failure.New(failure.NotFound, "read run", arg, "no such run or backup in %s", store.URL()).
			WithHint("see: tisnap runs list")
	case err != nil:
		return nil, err
	}
	return runs.Read(ctx, store, id)
}

func (d *runDoc) table(w io.Writer, v view) error {
	fmt.Fprintf(w, "run %s: %s of %s, backup %s: %s\n", oneLine(d.ID), oneLine(d.Operation), oneLine(d.Cluster),
		oneLine(d.Backup), shown(&d.Run))
	if d.Owner != "" {
		fmt.Fprintf(w, "its lock is held by %s until %s\n", oneLine(d.Owner), v.text(*d.Until))
	}
	if d.Silent {
		fmt.Fprintf(w,
			"the lock was last renewed at %s by its owner's clock, and not while this command watched: the process "+
				"is dead or suspended. The command that started it resumes it after watching the lock for a minute\n",
			v.text(*d.RenewedAt))
	}
	if d.Progress != nil {
		printProgress(w, d.Progress, d.Step, v)
	}
	if d.ResolvedBy != "" {
		fmt.Fprintf(w, "its process died, and tisnap resolve finished it in run %s\n", oneLine(d.ResolvedBy))
	}
	if d.Error != "" {
		fmt.Fprintf(w, "error: %s\n", oneLine(d.Error))
	}
	fmt.Fprintln(w)
	t := newTable("PROCESS", v.heading("START"), v.heading("END"), "IN STEPS", "GAP BEFORE", "ENDED IN")
	for i, p := range d.Processes {
		end, in := v.cell(p.End), p.Step
		if d.Progress != nil && i == len(d.Processes)-1 {
			end, in = "running", ""
		}
		t.row(i+1, v.cell(p.Start), end, seconds(p.Seconds), seconds(p.GapSeconds), in)
	}
	if err := t.write(w, v); err != nil || d.State != runs.Unfinished {
		return err
	}
	_, err := fmt.Fprintf(w,
		"\nresume it with the command that started it and --run-id %s; undo it with: tisnap runs abort %s\n",
		oneLine(d.ID), oneLine(d.ID))
	return err
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}

// completeRuns offers the ids of runs in the shell.
func (a *app) completeRuns(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), 5*time.Second)
	defer cancel()
	items, err := a.runs(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ids := make([]string, len(items))
	for i, r := range items {
		ids[i] = string(r.ID)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
