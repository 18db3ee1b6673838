package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/wait"
)

// followInterval is how often a followed journal is read.
const followInterval = 2 * time.Second

func (a *app) logsCommand() *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:         "logs RUN|BACKUP",
		Annotations: without("wide", "name", "yaml", jsonPath),
		Short:       "Show what a run did, step by step, from its journal",
		Long: `Show what a run did, step by step, from its journal in the storage: from any machine, while
the run is active and afterwards. -o json prints the journal's records instead. With --follow, the
exit status is the run's outcome.`,
		Example:           "  tisnap logs 20261122t100000-1a2b3c4d -f --storage s3://backups/prod",
		Args:              exactly("RUN|BACKUP"),
		ValidArgsFunction: a.completeRuns,
		RunE: func(cmd *cobra.Command, args []string) error {
			store, done, err := a.openStore(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			r, err := runOf(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			l := runLog{store: store, run: r.ID, asJSON: a.global.output == "json"}
			return l.print(cmd.Context(), a.streams.Out, follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false,
		"wait for more until the run ends, and exit as it did")
	return cmd
}

// runLog prints a run's journal.
type runLog struct {
	store  objstore.Store
	run    cluster.RunID
	asJSON bool
	last   int // the number of the last record printed
	words  logWords
}

// print writes the records. Following ends with the run; a failed run, or one whose process died, is an error.
func (l *runLog) print(ctx context.Context, w io.Writer, follow bool) error {
	for {
		r, err := runs.Read(ctx, l.store, l.run)
		if err != nil {
			return err
		}
		for i := range r.History.Records {
			record := r.History.Records[i]
			if follow && !l.asJSON && record.Type == phase.RecordEnd {
				record.Error = "" // it is the command's own error
			}
			if err := l.record(w, &record); err != nil {
				return failure.Annotate(err, "print log", string(l.run))
			}
		}
		switch {
		case !follow || r.State == runs.Done:
			return nil
		case r.State == runs.Failed:
			return failure.New(failure.Unknown, "run", string(l.run), "%s", r.Error)
		case r.State == runs.Unfinished:
			return failure.New(failure.Unready, "follow run", string(l.run),
				"its process died or lost its lock in step %s", r.Step).
				WithHint(
					"resume it with the command that started it and --run-id %s, or undo it: tisnap runs abort %s",
					l.run, l.run)
		}
		if err := wait.For(ctx, followInterval); err != nil {
			return failure.Annotate(err, "follow run", string(l.run))
		}
	}
}

func (l *runLog) record(w io.Writer, r *phase.Record) error {
	if r.Seq <= l.last {
		return nil
	}
	l.last = r.Seq
	if l.asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	for _, line := range l.words.of(r) {
		if _, err := fmt.Fprintf(w, "%s  %s\n", r.Time.UTC().Format(time.RFC3339), oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}
