package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// steadyInterval is how often the stores are looked at between two attempts.
const steadyInterval = 500 * time.Millisecond

// again makes everything from the first connection to the release one group: if the hold breaks, all of it is
// let go, its snapshots are deleted, and it is held again, a bounded number of times.
func (t *task) holdGroup() *phase.RetryGroup {
	return &phase.RetryGroup{
		From: journal.StepConnect, To: journal.StepRelease, Attempts: t.opts.HoldAttempts, Worth: worth,
		Phase: phaseAgain, Ready: t.steady, Deadline: t.opts.SteadyTimeout,
	}
}

// worth tells whether to hold again: a hold that broke, or could not be taken because a store or PD did not
// answer, as in a rolling restart. One that took too long is not tried again, as its budget is a promise; what
// EC2 refuses would be refused again.
func worth(step string, err error) bool {
	switch {
	case errors.Is(err, hold.ErrBudget):
		return false
	case errors.Is(err, hold.ErrBroken):
		return true
	}
	kind := failure.KindOf(err)
	return kind != failure.Held && slices.Contains([]string{journal.StepConnect, journal.StepHold, journal.StepHoldGC, journal.StepBackupTS}, step) &&
		(kind == failure.Unknown || kind == failure.Limited)
}

// steady returns when the cluster has been up without a restart for Options.Steady, and can be backed up: its
// pods may have moved, so all checks are made anew.
func (t *task) steady(ctx context.Context, s *phase.Scope) error {
	if err := t.discard(ctx); err != nil {
		return err
	}
	w := &watch{since: time.Now()}
	for told := ""; ; {
		ready, err := t.lookSteady(ctx, w)
		if err != nil {
			return err
		}
		if ready {
			return t.lookForImports(ctx, s)
		}
		if w.reason != nil && w.reason.Error() != told {
			told = w.reason.Error()
			s.Note("not held again yet: %s", told)
		}
		if err := wait.For(ctx, min(steadyInterval, t.opts.Steady)); err != nil {
			return t.neverSteady(err, w.reason)
		}
	}
}

// watch is what was seen of the stores between two attempts.
type watch struct {
	stores string
	since  time.Time // when something was last amiss, or the watch began
	reason error     // what was
}

// lookSteady looks once. Its error is one that waiting does not mend.
func (t *task) lookSteady(ctx context.Context, w *watch) (ready bool, err error) {
	amiss := func(why error) {
		w.since = time.Now()
		if ctx.Err() == nil { // the end of the wait is not what kept it waiting
			w.reason = why
		}
	}
	now, err := t.stores(ctx)
	if err != nil {
		amiss(err)
		return false, nil
	}
	before := w.stores
	w.stores = now
	switch {
	case before != "" && now != before:
		amiss(failure.New(failure.Unready, "check stores", t.opts.Cluster.String(), "a store has restarted, joined or left"))
		return false, nil
	case time.Since(w.since) < t.opts.Steady:
		return false, nil
	}
	err = t.inspect(ctx, false)
	if k := failure.KindOf(err); err == nil || k != failure.Unready && k != failure.Limited && k != failure.Unknown {
		return err == nil, err
	}
	amiss(err)
	return false, nil
}

func (t *task) neverSteady(ended, reason error) error {
	if !errors.Is(ended, context.DeadlineExceeded) {
		return failure.Annotate(ended, "wait until the cluster is steady", t.opts.Cluster.String())
	}
	if reason == nil {
		reason = ended
	}
	return failure.New(failure.Unready, "wait until the cluster is steady", t.opts.Cluster.String(),
		"unstable topology: within %s it was not up for %s without a change: %w", t.opts.SteadyTimeout, t.opts.Steady, reason).
		WithHint("run it again when the rolling restart or scaling is over, or raise --steady-timeout")
}

// stores describes PD's stores and when each started; it fails if one is not up, or PD itself is not ready.
func (t *task) stores(ctx context.Context) (string, error) {
	all, err := t.PD.Stores(ctx)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, st := range all {
		if st.State == pd.StoreTombstone || !st.IsTiKV() {
			continue
		}
		if st.State != pd.StoreUp {
			return "", failure.New(failure.Unready, "check stores", t.opts.Cluster.String(), "store %s (%s) is %s", st.ID, st.Address, st.State)
		}
		lines = append(lines, fmt.Sprint(st.ID, " ", st.Address, " ", st.StartedAt.UnixNano()))
	}
	schedulers, err := t.PD.Schedulers(ctx)
	if err != nil {
		return "", err
	}
	if len(schedulers) == 0 {
		return "", failure.New(failure.Unready, "check pd", t.opts.Cluster.String(), "it lists no scheduler, so its coordinator has not started").
			WithHint("wait a minute after a restart or change of leader of PD")
	}
	slices.Sort(lines)
	return strings.Join(lines, ","), nil
}

// discard notes the snapshots of the attempt that failed: they are deleted, but EC2 may go on showing them, and
// none of them may be taken for one of the next attempt.
func (t *task) discard(ctx context.Context) error {
	for _, snap := range t.sets.all() {
		t.discarded[snap.ID] = true
	}
	found, err := t.EBS.FindSnapshots(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run)})
	if err != nil {
		return failure.Annotate(err, "look for discarded snapshots", string(t.opts.Run))
	}
	for _, snap := range found {
		t.discarded[snap.ID] = true
	}
	return nil
}
