package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
)

// abortedDoc is the output of `tisnap runs abort`.
type abortedDoc struct {
	header
	runs.Run
	Aborted bool `json:"aborted"`
}

func (d *abortedDoc) table(w io.Writer, v view) error {
	if !d.Aborted {
		return nil // the error has the reason
	}
	_, err := fmt.Fprintf(w, "run %s (%s of %s) is undone\n", d.ID, d.Operation, d.Cluster)
	return err
}

func (a *app) runsAbortCommand() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "abort RUN",
		Short: "Undo a run whose process died",
		Long: `Undo a run whose process died, as the process itself would have done: a backup releases the
cluster, deletes its snapshots and frees its name, unless its seal may still arrive; a restore
deletes the cluster and volumes that it made. An abort that was itself killed is finished.
Snapshots of a sealed backup stay, and so does a restored cluster that serves. It waits a
minute to make sure that the process is dead, and refuses a live run (exit 6): stop that with
Ctrl-C or SIGTERM.

On a terminal it shows what a restore left, and asks; otherwise it needs --yes.`,
		Example:           "  tisnap runs abort 20261122t100000-1a2b3c4d --storage s3://backups/prod --yes",
		Args:              exactly("RUN"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !a.asks() {
				return usage(cmd, errors.New("this deletes what the run made: pass --yes"))
			}
			r, err := a.readRun(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if r.ResolvedBy != "" {
				return failure.New(failure.Conflict, "abort run", string(r.ID),
					"tisnap resolve finished it in run %s", r.ResolvedBy)
			}
			if freed, err := a.freeName(cmd.Context(), r, yes); freed || err != nil {
				return err
			}
			if r.History.Ended {
				return failure.New(failure.Conflict, "abort run", string(r.ID), "it has ended").
					WithHint("delete anything that it left with: tisnap gc")
			}
			return a.abort(cmd, r, yes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it")
	return cmd
}

// abort undoes a backup as its own process would have done, and a restore as `tisnap restore abort` does.
func (a *app) abort(cmd *cobra.Command, r *runs.Run, yes bool) error {
	switch r.Operation {
	case journal.Backup:
		if !yes {
			question := fmt.Sprintf("undo run %s (backup of %s)?", r.ID, r.Cluster)
			if err := a.confirm(cmd.Context(), question); err != nil {
				return err
			}
		}
		return a.operate(cmd, false, func(ctx context.Context, c *connections, s *session) (work, error) {
			deps, opts, err := a.backupDeps(ctx, cmd, c, s,
				backupFlags{run: string(r.ID), name: string(r.Backup), lockWait: lockWait(runlock.DefaultWait)},
				r.Cluster.String())
			return work{run: func(ctx context.Context) (document, error) {
				err := backup.Abort(ctx, deps, opts)
				return &abortedDoc{header: newHeader("AbortedRun"), Run: *r, Aborted: err == nil}, err
			}}, err
		})
	case journal.Restore:
		return a.abortRestore(cmd, removal{yes: yes, rate: abortRate}, r.ID)
	case journal.Copy:
		return failure.New(failure.Usage, "abort run", string(r.ID), "a copy is not undone by its own program").
			WithHint("resume it with the same command, or delete what it copied: tisnap gc --older-than 0s --yes")
	case journal.Drill:
		return failure.New(failure.Usage, "abort run", string(r.ID), "a drill is not aborted but cleaned up").
			WithHint("remove what it left: tisnap drill clean %s", r.ID)
	case journal.Archive:
		return failure.New(failure.Usage, "abort run", string(r.ID), "an archive has nothing to undo").
			WithHint("resume it with: tisnap archive create %s --run-id %s", r.Backup, r.ID)
	default:
		return failure.New(failure.Usage, "abort run", string(r.ID),
			"a %s has nothing to undo", r.Operation).
			WithHint("resume it with: tisnap resolve %s --backup %s", r.Cluster, r.Backup)
	}
}

// freeName gives up the name of a backup whose abort was killed before it came to that, and reports whether it was so.
func (a *app) freeName(ctx context.Context, r *runs.Run, yes bool) (freed bool, err error) {
	if r.Operation != journal.Backup || !r.History.Ended {
		return false, nil
	}
	store, done, err := a.openStore(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	confirm := func() error {
		if yes {
			return nil
		}
		return a.confirm(ctx, fmt.Sprintf("free the name %s, which aborted run %s had?", r.Backup, r.ID))
	}
	if freed, err = backup.Free(ctx, store, r.Backup, r.ID, r.History, confirm); err != nil || !freed {
		return freed, err
	}
	return true, a.print(&abortedDoc{header: newHeader("AbortedRun"), Run: *r, Aborted: true})
}

// abortRate is how many of a restore's volumes are deleted per second: the request limit is shared by the whole
// account.
const abortRate = 1
