package restore

import (
	"context"
	"fmt"
	"maps"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// startOver returns why the run starts over; "" to continue it. A run that died while being undone starts over, once
// the rest is undone. It is continued if it had to keep what it made, or if its target has left recovery mode: its data
// is resolved, it may serve since then, and nothing that counts was undone.
func (r *run) startOver(ctx context.Context, h *phase.History) (why string, err error) {
	switch {
	case !h.Undoing():
		if why, err = r.aheadLost(ctx, h); why == "" && err == nil {
			why, err = r.volumesGone(ctx, h)
		}
	case r.earlier.keep, r.target.leftRecovery:
	default:
		why = "the run was being undone when its process died"
	}
	if why != "" {
		r.earlier.discard()
	}
	return why, err
}

// aheadLost returns why it can no longer be determined which replicas were ahead of their logs: an earlier process may
// have made leaders, and its record is missing. Fresh volumes have the original state. What the run must keep, or did
// not create, is not removed: then it is an error. Nor is anything that, by the journal, has or may have served: the
// resolver removes its progress at the end, and the TidbCluster may be gone since.
func (r *run) aheadLost(ctx context.Context, h *phase.History) (string, error) {
	served := r.target.leftRecovery || r.earlier.Served || r.earlier.LeftRecovery != nil
	if !h.Began(stepStartTiKV) || served || r.backup.EarlyApplyRuledOut() {
		return "", nil
	}
	why := ""
	p, found, err := r.target.progress().Load(ctx)
	switch {
	case failure.Is(err, failure.Corrupt):
		why = "which replicas were ahead of their logs can no longer be read"
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
	return "", r.keptInTheWay(why)
}

// keptInTheWay is the error of a run that would have to start over, and must not remove what it made.
func (r *run) keptInTheWay(why string) error {
	return failure.New(failure.Corrupt, "resume restore", r.opts.Target.String(),
		"%s, and what run %s made is kept", why, r.opts.Run).
		WithHint("undo it with `tisnap runs abort %s --yes`, and restore again, onto fresh volumes", r.opts.Run)
}

// volumesGone returns that volumes were deleted since they were made, as by a gc while nothing used them: EC2 does not
// take their tokens again, and the stores would wait for them in vain. Once TiKV may have started on them a resumed run
// does not decide that.
func (r *run) volumesGone(ctx context.Context, h *phase.History) (string, error) {
	if h.Began(stepStartTiKV) || !h.Began(journal.StepCreateVolumes) {
		return "", nil
	}
	made := volumes.Created{}
	if h.Done(journal.StepCreateVolumes) {
		if err := h.Result(journal.StepCreateVolumes, &made); err != nil {
			return "", err
		}
	}
	maps.Copy(made, r.earlier.Volumes) // since then one may have been replaced
	gone, err := r.making.Gone(ctx, made, h.Done(stepAwaitVolumes))
	if err != nil {
		return "", failure.Annotate(err, "find volumes", r.opts.Target.String())
	}
	if gone == 0 {
		return "", nil
	}
	why := fmt.Sprintf("%d of its %d volumes were deleted since its process died", gone, len(made))
	if r.earlier.keep {
		return "", r.keptInTheWay(why)
	}
	return why, nil
}

// startAfresh forgets what earlier processes of the run made, which is undone.
func (r *run) startAfresh() error {
	r.earlier = earlier{RestoreFacts: journal.RestoreFacts{Restarts: r.earlier.Restarts + 1}}
	r.target, r.pd = newTarget(&r.Deps, r.opts, r.target.uid, false), newPlacement(&r.Deps, r.opts.Target)
	r.data, r.arrival = new(dataState), newArrival(r.arrival.times)
	r.making = r.newMaking()
	r.making.Continue(r.earlier.volumes(), false)
	if r.making.snapshots != nil {
		r.making.snapshots.Continue(r.earlier.snapshots())
	}
	return nil
}
