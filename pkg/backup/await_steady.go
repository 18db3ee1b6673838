package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// steadyInterval is how often the stores are polled between two attempts.
const steadyInterval = 500 * time.Millisecond

// awaitSteady returns when the cluster has been up without a restart for Options.Steady, and can be backed up: its
// pods may have moved, so all checks are repeated.
func (o *source) awaitSteady(ctx context.Context, s *phase.Scope) error {
	seen := &steadiness{since: time.Now()}
	for shown := ""; ; {
		ready, err := o.pollSteady(ctx, seen)
		if err != nil {
			return err
		}
		if ready {
			err := o.checkImports(ctx, s)
			if !failure.Transient(err) || ctx.Err() != nil {
				return err
			}
			seen.since, seen.reason = time.Now(), err // a store has just gone away
		}
		if seen.reason != nil && seen.reason.Error() != shown {
			shown = seen.reason.Error()
			s.Note("not held again yet: %s", shown)
		}
		if err := wait.For(ctx, min(steadyInterval, o.opts.Steady)); err != nil {
			return o.neverSteady(err, seen.reason)
		}
	}
}

// steadiness is what was seen of the stores between two attempts.
type steadiness struct {
	stores string
	since  time.Time // when the cluster was last unsteady, or the wait began
	reason error     // why it was
}

// pollSteady asks once. Its error is permanent.
func (o *source) pollSteady(ctx context.Context, seen *steadiness) (ready bool, err error) {
	unsteady := func(why error) {
		seen.since = time.Now()
		if ctx.Err() == nil { // a timeout of the wait itself is no reason
			seen.reason = why
		}
	}
	now, err := o.describeStores(ctx)
	if err != nil {
		unsteady(err)
		return false, nil
	}
	before := seen.stores
	seen.stores = now
	switch {
	case before != "" && now != before:
		unsteady(failure.New(failure.Unready, "check stores", o.opts.Cluster.String(),
			"a store has restarted, joined or left"))
		return false, nil
	case time.Since(seen.since) < o.opts.Steady:
		return false, nil
	}
	err = o.inspect(ctx, false)
	if err == nil || ctx.Err() == nil && !failure.Transient(err) && !failure.Is(err, failure.Unready) {
		return err == nil, err
	}
	unsteady(err)
	return false, nil
}

func (o *source) neverSteady(ended, reason error) error {
	if !errors.Is(ended, context.DeadlineExceeded) {
		return failure.Annotate(ended, "wait until the cluster is steady", o.opts.Cluster.String())
	}
	if reason == nil {
		reason = ended
	}
	return failure.New(failure.Unready, "wait until the cluster is steady", o.opts.Cluster.String(),
		"unstable topology: within %s it was not up for %s without a change: %w",
		o.opts.SteadyTimeout, o.opts.Steady, reason).
		WithHint("run it again when the rolling restart or scaling is over, or raise --steady-timeout")
}

// describeStores describes PD's stores and when each started; it fails if one is not up, or PD itself is not ready.
func (o *source) describeStores(ctx context.Context) (string, error) {
	all, err := o.pd.Stores(ctx)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, st := range all {
		if st.State == pd.StoreTombstone || !st.IsTiKV() {
			continue
		}
		if st.State != pd.StoreUp {
			return "", failure.New(failure.Unready, "check stores", o.opts.Cluster.String(), "store %s (%s) is %s",
				st.ID, st.Address, st.State)
		}
		lines = append(lines, fmt.Sprint(st.ID, " ", st.Address, " ", st.StartedAt.UnixNano()))
	}
	schedulers, err := o.pd.Schedulers(ctx)
	if err != nil {
		return "", err
	}
	if len(schedulers) == 0 {
		return "", failure.New(failure.Unready, "check pd", o.opts.Cluster.String(),
			"it lists no scheduler, so its coordinator has not started").
			WithHint("wait a minute after a restart or change of leader of PD")
	}
	slices.Sort(lines)
	return strings.Join(lines, ","), nil
}
