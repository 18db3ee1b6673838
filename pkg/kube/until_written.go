package kube

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	minUpdateInterval = 10 * time.Millisecond
	maxUpdateInterval = time.Second
)

// untilWritten repeats a read, change and write for as long as somebody else wrote between the two, with growing pauses, until
// ctx ends: nothing was written at such a try, and the next one goes by what is there now. A controller that writes all
// the time is no reason to fail before the caller's deadline; once that is over, the error is Limited. Callers have one.
func untilWritten(ctx context.Context, op, target string, try func() error) error {
	for interval := minUpdateInterval; ; interval = min(2*interval, maxUpdateInterval) {
		err := try()
		if !apierrors.IsConflict(err) {
			return wrap(err, op, target)
		}
		ended := wait.For(ctx, interval)
		switch {
		case errors.Is(ended, context.Canceled):
			return wrap(ended, op, target)
		case ended != nil:
			return failure.New(failure.Limited, op, target, "somebody else changed it at every try: %w", failure.Remote(err)).
				WithHint("see who writes it all the time, and run it again")
		}
	}
}
