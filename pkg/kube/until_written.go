package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	minUpdateInterval = 10 * time.Millisecond
	maxUpdateInterval = time.Second
)

// untilWritten retries a read-modify-write on conflicts, with growing pauses, until ctx ends: a conflicting try wrote
// nothing, and the next starts from the current state. A controller that writes constantly is no reason to fail before
// the caller's deadline; after that the error is Limited. Callers must have a deadline.
func untilWritten(ctx context.Context, op, target string, try func() error) error {
	err := wait.Until(ctx, wait.Growing(minUpdateInterval, maxUpdateInterval), func() (bool, error) {
		err := try()
		return !apierrors.IsConflict(err), err
	})
	switch ended := wait.EndOf(err); {
	case ended == nil:
		return kubeerr.Wrap(err, op, target)
	case errors.Is(ended.Cause, context.Canceled):
		return kubeerr.Wrap(ended.Cause, op, target)
	default:
		return failure.New(failure.Limited, op, target, "another client changed it at every try: %w",
			failure.Remote(ended.Last)).
			WithHint("find out which client keeps writing it, and run it again")
	}
}
