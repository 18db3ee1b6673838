// Package fenced lets a run's lock stop each of its calls right before it is sent: a process suspended in the middle of
// a step wakes up with the step's context, and notices another run's lock before its next effect.
//
// The context of a step or an undo carries the check, and the adapters make it. Without a check in the context, as in
// an undo that releases a live cluster, every call is sent.
package fenced

import (
	"context"
	"errors"
)

type key struct{}

// With makes ask decide about each call under ctx that may change something: its error refuses the call. It should
// normally answer at once, and may be called concurrently. What ctx asks already is asked first. nil refuses nothing.
func With(ctx context.Context, ask func(context.Context) error) context.Context {
	if ask == nil {
		return ctx
	}
	both := ask
	if before, ok := ctx.Value(key{}).(func(context.Context) error); ok {
		both = func(ctx context.Context) error {
			if err := before(ctx); err != nil {
				return err
			}
			return ask(ctx)
		}
	}
	return context.WithValue(ctx, key{}, both)
}

// Check must precede each call that may change something: after an error the call must not be sent.
func Check(ctx context.Context) error {
	ask, ok := ctx.Value(key{}).(func(context.Context) error)
	if !ok {
		return nil
	}
	if err := ask(ctx); err != nil {
		return &refusal{err}
	}
	return nil
}

// refusal is the error of a call that was not sent.
type refusal struct{ reason error }

// Error is the text of the reason.
func (r *refusal) Error() string { return r.reason.Error() }

// Unwrap returns the reason.
func (r *refusal) Unwrap() error { return r.reason }

// Refused reports whether a call was not sent because Check refused it or failed: its error already has the reason, and
// is not the other side's.
func Refused(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}
