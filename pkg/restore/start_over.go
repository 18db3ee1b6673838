package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// startOver returns why the run starts over; "" to continue it. A run that died while being undone starts over, once
// the rest is undone. It is continued if it had to keep what it made, or if its target has left recovery mode: its data
// is resolved, it may serve since then, and nothing that counts was undone.
func (r *run) startOver(ctx context.Context, h *phase.History) (why string, err error) {
	switch {
	case !h.Undoing():
		why, err = r.aheadLost(ctx, h)
	case r.earlier.keep, r.target.left:
	default:
		why = "the run was being undone when its process died"
	}
	if why != "" {
		r.earlier.keepAfterUndo, r.opts.KeepOnFailure = r.opts.KeepOnFailure, false
	}
	return why, err
}

// aheadLost returns why it can no longer be determined which replicas were ahead of their logs: an earlier process may
// have made leaders, and its record is missing. Fresh volumes have the original state. What the run must keep, or did
// not create, is not removed: then it is an error. Nor is anything that, by the journal, has or may have served: the
// resolver removes its progress at the end, and the TidbCluster may be gone since.
func (r *run) aheadLost(ctx context.Context, h *phase.History) (string, error) {
	served := r.target.left || r.earlier.Served || r.earlier.Left != nil
	if !h.Began(stepStartTiKV) || served || r.backup.EarlyApplyRuledOut() {
		return "", nil
	}
	why := ""
	p, found, err := r.progress().Load(ctx)
	switch {
	case failure.Is(err, failure.Corrupt):
		why = "which replicas were ahead of their logs cannot be read any more"
	case err != nil:
		return "", failure.Annotate(err, "read progress", r.opts.Target.String())
	case found && p.Run == r.opts.Run && p.EarlyApply == nil:
		why = "an older version may have made leaders, and has not looked for replicas ahead of their logs before"
	case !found && h.Began(journal.StepRecover):
		why = "which replicas were ahead of their logs is not written down any more"
	}
	if why == "" || !r.earlier.keep && !r.target.existing {
		return why, nil
	}
	return "", failure.New(failure.Corrupt, "resume restore", r.opts.Target.String(),
		"%s, and what run %s made is kept", why, r.opts.Run).
		WithHint("undo it with `tisnap runs abort %s --yes`, and restore again, onto fresh volumes", r.opts.Run)
}

// progress is the resolver's record of its progress.
func (r *run) progress() *resolve.ProgressFile {
	return resolve.NewProgressFile(objstore.AskFirst(r.Store), r.opts.Target, r.opts.Backup)
}

// reset forgets what earlier processes of the run made, which is undone.
func (r *run) reset() error {
	r.opts.KeepOnFailure = r.earlier.keepAfterUndo
	r.earlier = earlier{RestoreFacts: journal.RestoreFacts{Restarts: r.earlier.Restarts + 1}}
	r.target, r.pd = r.newTarget(r.target.uid)
	r.data.resolved = false
	r.making = r.newMaking(r.making.Options().BR)
	r.making.Continue(r.earlier.volumes(), false)
	r.arrival.up.Store(false)
	return nil
}
