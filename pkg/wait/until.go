package wait

import (
	"context"
	"fmt"
	"time"
)

// Pace is how long to wait before the next try, after a wait of last; zero before the second try.
type Pace func(last time.Duration) time.Duration

// Every is the same wait before each try.
func Every(d time.Duration) Pace { return func(time.Duration) time.Duration { return d } }

// Growing is a wait that doubles, from first to most.
func Growing(first, most time.Duration) Pace {
	return func(last time.Duration) time.Duration { return min(max(2*last, first), most) }
}

// Until tries at once, and again at the pace, until try is done: its error is returned then. The error of a try that is
// not done is only why. If ctx ends first, the error is an *Ended.
func Until(ctx context.Context, pace Pace, try func() (done bool, err error)) error {
	var last error
	for pause := pace(0); ; pause = pace(pause) {
		done, err := try()
		if done {
			return err
		}
		if last == nil || ctx.Err() == nil { // what the end of ctx interrupted says nothing
			last = err
		}
		if cause := For(ctx, pause); cause != nil {
			return &Ended{Cause: cause, Last: last}
		}
	}
}

// Ended is the error of an Until whose context ended first.
type Ended struct {
	Cause error // ctx's
	Last  error // why the last try was not done; nil if it did not say
}

// Error says the cause, and the last reason behind it.
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

// EndOf is the error of an Until if its context ended first, and nil if it is that of a try, whatever that wraps.
func EndOf(err error) *Ended {
	ended, _ := any(err).(*Ended) // not errors.As: an Ended that a try wraps is the try's own
	return ended
}

// Reason is the error of an Until for a caller to whom the last try's own error says more than that the context ended.
func Reason(err error) error {
	if ended := EndOf(err); ended != nil && ended.Last != nil {
		return ended.Last
	}
	return err
}
