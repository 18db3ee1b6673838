package failure

import (
	"context"
	"errors"
)

// Transient reports whether the same call may succeed a moment later: throttled, out of time, or an error that no
// table knows. It is false for nil, for a cancelled context, for a panic, which comes back at every try, and for what a
// table knows to be permanent, such as a quota.
func Transient(err error) bool {
	var bug *PanicError
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &bug) || Permanent(err) {
		return false
	}
	k := KindOf(err)
	return k == Unknown || k == Limited
}

// NotYet reports whether something that is being made or restarted may still come: Transient, not there, or not
// ready. Wait for it with a deadline of your own.
func NotYet(err error) bool {
	return Transient(err) || Is(err, NotFound) || Is(err, Unready)
}

// Permanent reports whether err, or a part of it, is known to come back at every try.
func Permanent(err error) bool { return anyError(err, func(e *Error) bool { return e.Permanent }) }
