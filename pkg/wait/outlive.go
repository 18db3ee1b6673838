package wait

import (
	"context"
	"time"
)

// Outlive returns a context that is cancelled d after ctx, so that a call in flight can get its answer. The returned
// function releases it.
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
