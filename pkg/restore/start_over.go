package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// startOver returns why the run begins with its first step again. One that died while it was being undone does: the
// rest is undone. It is continued if it was to keep what it made, or if its target has left recovery mode: its data are
// resolved, it may serve since then, and nothing that counts was undone.
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

// aheadLost says why nobody can find out any more which replicas were ahead of their logs: an earlier process may have
// made leaders, and what it wrote down before is not there. Fresh volumes have them as they were. What the run was to
// keep, or somebody else made, is not taken away: then that is an error. Nor is what has served, or may have, by the
// journal: the resolver removes its progress at the end, and the TidbCluster may be gone since.
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

// progress is where the resolver writes down how far the target's data have come.
func (r *run) progress() *resolve.ProgressFile {
	return resolve.NewProgressFile(objstore.AskFirst(r.Store), r.opts.Target, r.opts.Backup)
}

// reset forgets what earlier processes of the run made: it is taken away.
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
