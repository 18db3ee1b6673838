package kube

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/wait"
)

// maxAnswer is how long to wait for the answer to a creation after the run was cancelled.
const maxAnswer = 10 * time.Second

// create creates an object, unless ctx has ended. If ctx ends meanwhile, it still waits for the answer: an abandoned
// creation might take effect after the undo has looked for the object and found none.
func create[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	ctx, release := wait.Outlive(ctx, maxAnswer)
	defer release()
	return do(ctx)
}
