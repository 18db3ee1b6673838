package ebs

import (
	"errors"

	"github.com/tisnap/tisnap/pkg/failure"
)

// errMayHaveHappened marks errors for MayHaveHappened.
var errMayHaveHappened = errors.New("the call may have happened")

// MayHaveHappened reports whether a failed call may have taken effect anyway: an answer was lost, or the caller gave up
// while EC2 was working. Look up the effect by tag before retrying. A call that EC2 refused, or that was never sent,
// had no effect and needs no look-up.
func MayHaveHappened(err error) bool { return errors.Is(err, errMayHaveHappened) }

// maybeHappened marks an error of a call that may have happened. Kind, hint and text stay.
func maybeHappened(err error) error {
	var known *failure.Error
	if !errors.As(err, &known) || errors.Is(err, errMayHaveHappened) {
		return err
	}
	marked := *known
	marked.Err = &ambiguousError{known.Err}
	return &marked
}

type ambiguousError struct{ err error }

// Error is the cause's text.
func (d *ambiguousError) Error() string { return d.err.Error() }

// Unwrap returns the cause and the mark.
func (d *ambiguousError) Unwrap() []error { return []error{d.err, errMayHaveHappened} }
