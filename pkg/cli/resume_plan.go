package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/runs"
)

// resumePlanDoc is the output of a dry run of a command that would resume a run whose process died.
type resumePlanDoc struct {
	header
	Run       cluster.RunID     `json:"run"`
	Operation journal.Operation `json:"operation"`
	Backup    cluster.BackupID  `json:"backup"`
	Cluster   cluster.Name      `json:"cluster"`
	Step      string            `json:"step"` // in which its process died
	Undoing   bool              `json:"undoing,omitempty"`
}

func (d *resumePlanDoc) table(w io.Writer, _ view) error {
	how := "from step " + d.Step
	if d.Undoing {
		how = "which was being undone in step " + d.Step
	}
	_, err := fmt.Fprintf(w, "would resume run %s (%s of %s, backup %s), %s; nothing was changed\n", d.Run, d.Operation,
		d.Cluster, d.Backup, how)
	return err
}

func (d *resumePlanDoc) names() []string { return []string{"run/" + string(d.Run)} }

// resumePlan is what a dry run prints of a run that the command would resume; nil if it would begin a new one. It is a
// Conflict if that run has another request, or a process of it lives, as the command without --dry-run would find.
func (w *work) resumePlan(ctx context.Context, note func(string)) (document, error) {
	if w.store == nil {
		return nil, nil
	}
	r, err := runs.Read(ctx, w.store, w.id)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !r.History.Unfinished():
		return nil, nil // the command reports what is wrong with it
	}
	if err := r.About.SameRequest(r.ID, &w.request); err != nil {
		return nil, err
	}
	if r.State == runs.Running {
		found, err := runlock.Watch(ctx, w.store, r.About.Lock(), w.lockWait,
			func(held *runlock.Record) { note(held.Watching()) })
		switch {
		case err != nil:
			return nil, err
		case found.Record != nil && found.Record.Released: // by a run that was alive, and may have ended
			return w.resumePlan(ctx, note)
		case found.Held(time.Now()):
			return nil, failure.New(failure.Conflict, "plan", r.Cluster.String(), "run %s is under way: %s", r.ID,
				r.Owner).
				WithHint("wait for that run (tisnap status %s); if it is dead, run this again in a minute", r.ID)
		}
	}
	return &resumePlanDoc{
		header: newHeader("ResumePlan"), Run: r.ID, Operation: r.Operation, Backup: r.Backup, Cluster: r.Cluster,
		Step: r.Step, Undoing: r.History.Undoing(),
	}, nil
}
