package restore

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// look is how often other systems are looked at while waiting.
const look = 500 * time.Millisecond

// createCluster makes the target in recovery mode, unless it was made for this restore.
func (t *task) createCluster(ctx context.Context, _ *phase.Scope) error {
	if t.existing {
		return nil
	}
	return t.Kube.CreateCluster(ctx, t.manifest.Kubernetes.TidbCluster, t.opts.Target, t.opts.Run)
}

// deleteCluster is the undo: only a cluster that this run made is deleted.
func (t *task) deleteCluster(ctx context.Context, s *phase.Scope) error {
	if t.existing || t.opts.KeepOnFailure {
		s.Note("cluster %s is kept", t.opts.Target)
		return nil
	}
	if t.fence.Taken(ctx) {
		s.Warn("cluster %s is kept: another run may have gone on with it", t.opts.Target)
		return nil
	}
	stay, lookErr := t.Kube.Provisioned(ctx, t.opts.Target, t.opts.Run)
	err := t.Kube.DeleteCluster(ctx, t.opts.Target, t.opts.Run)
	switch {
	case lookErr != nil:
		s.Warn("which volumes of PD stay is not known: %v", lookErr)
	case len(stay) > 0:
		s.Warn("these persistent volumes, of PD, have the reclaim policy Retain and stay: %s", strings.Join(stay, ", "))
		t.leave("these persistent volumes stay, as their reclaim policy is Retain; delete them by hand: %s", strings.Join(stay, ", "))
	}
	return err
}

// awaitPD waits until a majority of PD's members are healthy and answer: with the address of one alone, its
// restart would look like the loss of PD.
func (t *task) awaitPD(ctx context.Context, _ *phase.Scope) error {
	return until(ctx, "wait for PD", t.opts.Target.String(), func(ctx context.Context) (bool, error) {
		tc, err := t.Kube.Cluster(ctx, t.opts.Target)
		if err != nil || 2*len(tc.PDAddresses) <= tc.PDReplicas {
			return false, err
		}
		p, err := t.OpenPD(ctx, tc.PDAddresses)
		if err != nil {
			return false, err
		}
		t.pd = p
		return true, nil
	})
}

// markRecovering has to be over before the first TiKV starts: TiKV asks for the mark once, at its start, and
// a commit ts below one in the data kills it later.
func (t *task) markRecovering(ctx context.Context, _ *phase.Scope) error {
	target := t.opts.Target.String()
	if err := t.pd.MarkRecovering(ctx); err != nil {
		return failure.Annotate(err, "mark recovering", target)
	}
	marked, err := t.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", target)
	}
	if !marked {
		return failure.New(failure.Unknown, "mark recovering", target, "PD took the mark and does not have it")
	}
	return t.raiseTS(ctx, nil)
}

// raiseTS makes PD's timestamps larger than every one in the data.
func (t *task) raiseTS(ctx context.Context, _ *phase.Scope) error {
	if t.resolved {
		return nil
	}
	target := t.opts.Target.String()
	ts := max(t.manifest.MaxTS, t.manifest.BackupTS)
	if err := t.pd.RaiseTS(ctx, ts); err != nil {
		return failure.Annotate(err, "raise timestamp", target)
	}
	now, err := t.pd.Now(ctx)
	if err != nil {
		return failure.Annotate(err, "take timestamp", target)
	}
	if now <= ts {
		return failure.New(failure.Unknown, "raise timestamp", target, "PD gives %s, which is not above %s", now, ts)
	}
	return nil
}

// until polls until done, an error that waiting does not mend, or the end of ctx; then it says what was missing.
func until(ctx context.Context, op, target string, done func(context.Context) (bool, error)) error {
	var last error
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil {
			last = err
			switch failure.KindOf(err) {
			case failure.Unknown, failure.Limited, failure.Unready, failure.NotFound:
			default:
				return failure.Annotate(err, op, target)
			}
		}
		if wait.For(ctx, look) != nil {
			if last == nil {
				return failure.Wrap(context.Cause(ctx), failure.Limited, op, target)
			}
			return failure.New(failure.Limited, op, target, "%w (last: %w)", context.Cause(ctx), last)
		}
	}
}
