package failure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Error describes which operation failed on what, and what to do about it.
type Error struct {
	Op     string // verb and noun: "create snapshot"
	Target string // "vol-0abc of store 4"; empty if Op is enough
	Kind   Kind
	Hint   string // one imperative sentence, or empty
	Err    error  // cause; Unwrap returns it
	// Permanent means that repeating the call gives the same answer, whatever the kind: a quota is Limited, but waiting
	// does not raise it.
	Permanent bool
}

// New returns an Error whose cause is a message. The message starts lower-case and has no full stop.
func New(kind Kind, op, target, format string, args ...any) *Error {
	return &Error{Op: op, Target: target, Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Wrap adds an operation, a target and a kind to err. Wrap of nil is nil. Context errors keep their identity (errors.Is
// still finds them).
func Wrap(err error, kind Kind, op, target string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Kind: kind, Err: err}
}

// Annotate adds an operation and a target, and keeps err's kind and hint.
func Annotate(err error, op, target string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Kind: KindOf(err), Hint: HintOf(err), Err: err}
}

// WithHint returns a copy of e with the hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Lasting returns a permanent copy of e.
func (e *Error) Lasting() *Error {
	c := *e
	c.Permanent = true
	return &c
}

// Error prints "op of target: cause"; kind and hint are shown by the command line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Target != "" {
		if e.Op != "" {
			b.WriteString(" of ")
		}
		b.WriteString(e.Target)
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the most serious kind found in err's tree: Held before all others, then the outermost.
// A deadline that passed is Limited; nil and anything else without a kind are Unknown.
func KindOf(err error) Kind {
	if err == nil {
		return Unknown
	}
	if held(err) {
		return Held
	}
	var e *Error
	if errors.As(err, &e) {
		if e.Kind == Unknown && errors.Is(err, context.DeadlineExceeded) {
			return Limited
		}
		return e.Kind
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Limited
	}
	return Unknown
}

// Is reports whether err's kind is k.
func Is(err error, k Kind) bool { return err != nil && KindOf(err) == k }

// HintOf returns the hint of the most serious error in err's tree: a Held one's first, then the outermost; or "".
func HintOf(err error) string {
	if hint := hintIn(err, func(e *Error) bool { return e.Kind == Held }); hint != "" {
		return hint
	}
	return hintIn(err, func(*Error) bool { return true })
}

// hintIn returns the first hint in err's tree, including joined errors, of an error for which counts is true.
func hintIn(err error, counts func(*Error) bool) string {
	hint := ""
	anyError(err, func(e *Error) bool {
		if e.Hint == "" || !counts(e) {
			return false
		}
		hint = e.Hint
		return true
	})
	return hint
}

// maxHints bounds the number of hints shown.
const maxHints = 3

// HintsOf returns HintOf, followed by the distinct hints of the errors joined to that one, at most three in total: a
// run's failure and its undo's leftovers seldom have the same remedy.
func HintsOf(err error) []string {
	var hints []string
	add := func(hint string) {
		if hint != "" && len(hints) < maxHints && !slices.Contains(hints, hint) {
			hints = append(hints, hint)
		}
	}
	add(HintOf(err))
	for _, part := range outermostJoin(err) {
		add(HintOf(part))
	}
	return hints
}

// outermostJoin returns the errors joined last; nil if none were.
func outermostJoin(err error) []error {
	for err != nil {
		if j, ok := err.(interface{ Unwrap() []error }); ok { // the chain is walked by hand: As sees no joins
			return j.Unwrap()
		}
		err = errors.Unwrap(err)
	}
	return nil
}

// held walks joined errors too: a cluster that is still held outranks the error that led to it.
func held(err error) bool { return anyError(err, func(e *Error) bool { return e.Kind == Held }) }

// anyError reports whether is holds for any Error in err's tree, including joined errors, outermost first. It walks the
// tree by hand because errors.As stops at the first match.
func anyError(err error, is func(*Error) bool) bool {
	if e, ok := any(err).(*Error); ok && is(e) {
		return true
	}
	switch u := any(err).(type) {
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(u.Unwrap(), func(inner error) bool { return anyError(inner, is) })
	case interface{ Unwrap() error }:
		return anyError(u.Unwrap(), is)
	}
	return false
}
