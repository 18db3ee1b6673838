package failure

import (
	"context"
	"errors"
)

// Transient reports whether the same call may succeed a moment later: throttled, out of time, or an error in no table.
// It is false for nil, a cancelled context, a panic, which recurs at every try, and errors known to be permanent, such
// as a quota.
func Transient(err error) bool {
	var bug *PanicError
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, &bug) || Permanent(err) {
		return false
	}
	k := KindOf(err)
	return k == Unknown || k == Limited
}

// NotYet reports whether something being created or restarted may still appear: Transient, missing, or not ready. Wait
// for it with your own deadline.
func NotYet(err error) bool {
	return Transient(err) || Is(err, NotFound) || Is(err, Unready)
}

// Permanent reports whether err, or a part of it, is known to recur at every try.
func Permanent(err error) bool { return anyError(err, func(e *Error) bool { return e.Permanent }) }
