package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
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
		if err != nil {
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
