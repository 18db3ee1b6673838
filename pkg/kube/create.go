package kube

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/wait"
)

// maxAnswer is how long the answer of a creation is waited for after the run was cancelled.
const maxAnswer = 10 * time.Second

// create makes an object, unless ctx has ended. A creation that is under way when ctx ends gets its answer: given up,
// it might be carried out after the undo has looked for the object, and found none.
func create[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	if ctx.Err() != nil {
		var none T
		return none, context.Cause(ctx)
	}
	ctx, release := wait.Outlive(ctx, maxAnswer)
	defer release()
	return do(ctx)
}
