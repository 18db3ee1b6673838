package wait

import (
	"context"
	"fmt"
	"time"
)

// Pace returns how long to wait before the next try, given the previous wait: zero before the second try.
type Pace func(last time.Duration) time.Duration

// Every waits the same time before each try.
func Every(d time.Duration) Pace { return func(time.Duration) time.Duration { return d } }

// Growing doubles the wait, from first to most.
func Growing(first, most time.Duration) Pace {
	return func(last time.Duration) time.Duration { return min(max(2*last, first), most) }
}

// Until calls try at once, then at the pace, until it is done, and returns its error. The error of a try that is not
// done is only a reason. If ctx ends first, the error is an *Ended.
func Until(ctx context.Context, pace Pace, try func() (done bool, err error)) error {
	var last error
	for pause := pace(0); ; pause = pace(pause) {
		done, err := try()
		if done {
			return err
		}
		if last == nil || !ended(ctx) { // an interrupted try gives no reason
			last = err
		}
		if cause := For(ctx, pause); cause != nil {
			return &Ended{Cause: cause, Last: last}
		}
	}
}

// ended reports whether ctx has ended, or is about to: what asks for its deadline, as a rate limiter does, sees it pass
// before ctx does.
func ended(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// Ended is the error of an Until whose context ended first.
type Ended struct {
	Cause error // ctx's
	Last  error // why the last try was not done; nil if it gave no reason
}

// Error is the cause, followed by the last reason.
func (e *Ended) Error() string {
	if e.Last == nil {
		return e.Cause.Error()
	}
	return fmt.Sprintf("%v (last: %v)", e.Cause, e.Last)
}

// Unwrap gives both errors to errors.Is and errors.As.
func (e *Ended) Unwrap() []error {
	if e.Last == nil {
		return []error{e.Cause}
	}
	return []error{e.Cause, e.Last}
}

// EndOf returns the *Ended of an Until whose context ended first; nil for a try's error, whatever that wraps.
func EndOf(err error) *Ended {
	ended, _ := any(err).(*Ended) // not errors.As: an Ended that a try wraps is the try's own
	return ended
}

// Reason returns the last try's error in place of an *Ended, for callers to whom it is more useful.
func Reason(err error) error {
	if ended := EndOf(err); ended != nil && ended.Last != nil {
		return ended.Last
	}
	return err
}
