package wait

import (
	"context"
	"time"
)

// Outlive is ctx, but for its end: it ends d later, so that a call that is under way can get its answer. The function
// returned releases it.
func Outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(inner, func() { timer.Stop() })
	})
	return inner, func() {
		stop()
		cancel(context.Canceled)
	}
}
