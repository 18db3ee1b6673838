package phase

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Poll asks every interval until done, a permanent error, or the end of ctx; then its error has what was missing.
func Poll(
	ctx context.Context, interval time.Duration, op, target string, done func(context.Context) (bool, error),
) error {
	err := wait.Until(ctx, wait.Every(interval), func() (bool, error) {
		ok, err := done(ctx)
		if ok {
			return true, nil
		}
		return err != nil && ctx.Err() == nil && !failure.NotYet(err), err
	})
	if wait.EndOf(err) != nil {
		return failure.Wrap(err, failure.Limited, op, target)
	}
	return failure.Annotate(err, op, target)
}
