package ebs

import (
	"errors"

	"github.com/tisnap/tisnap/pkg/failure"
)

// errMayHaveHappened is in the tree of an error that MayHaveHappened knows.
var errMayHaveHappened = errors.New("the call may have happened")

// MayHaveHappened reports whether a call that failed may have had its effect all the same: an answer was lost,
// or the caller went away while EC2 was at it. Then look the effect up by tag before asking again. A call that
// EC2 refused, or that was never sent, had none, and needs no look-up.
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
