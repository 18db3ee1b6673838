package restore

import (
	"context"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// pollInterval is how often other systems are asked while the run waits for them.
const pollInterval = 500 * time.Millisecond

// poll asks until done, a permanent error, or the end of ctx; then it says what was missing.
func poll(ctx context.Context, op, target string, done func(context.Context) (bool, error)) error {
	var last error
	for {
		ok, err := done(ctx)
		if ok {
			return nil
		}
		if err != nil && (last == nil || ctx.Err() == nil) { // what the end of ctx interrupted says nothing
			last = err
			if ctx.Err() == nil && !failure.NotYet(err) {
				return failure.Annotate(err, op, target)
			}
		}
		if wait.For(ctx, pollInterval) != nil {
			if last == nil {
				return failure.Wrap(context.Cause(ctx), failure.Limited, op, target)
			}
			return failure.New(failure.Limited, op, target, "%w (last: %w)", context.Cause(ctx), last)
		}
	}
}

// explainInterval is how often a wait for the target's pods asks Kubernetes what is in the way.
const explainInterval = 3 * time.Second

// pollCluster is poll for something that the target's pods have to do. It says every few seconds why they do not run, if that
// has changed. A cluster that was deleted ends the wait.
func (r *run) pollCluster(ctx context.Context, s *phase.Scope, op string, done func(context.Context) (bool, error)) error {
	target := r.opts.Target.String()
	said, asked := "", time.Now()
	return poll(ctx, op, target, func(ctx context.Context) (bool, error) {
		ok, err := done(ctx)
		if ok || err != nil && !failure.NotYet(err) {
			return ok, err
		}
		if r.Kube != nil && time.Since(asked) >= explainInterval {
			asked = time.Now()
			reasons, waitErr := r.Kube.Waiting(ctx, r.opts.Target)
			if failure.Is(waitErr, failure.NotFound) {
				return false, failure.New(failure.Conflict, op, target, "the TidbCluster was deleted").
					WithHint("see who deleted it, and restore again")
			}
			if text := strings.Join(reasons, "; "); waitErr == nil && text != said {
				if said = text; said != "" {
					s.Note("waiting: %s", said)
				}
			}
		}
		if said != "" {
			err = failure.New(failure.Unready, op, target, "%s", strings.TrimPrefix(errorText(err)+"; "+said, "; "))
		}
		return false, err
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
