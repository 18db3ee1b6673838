package failure

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Join is errors.Join for the errors of many items: nil without errors, the error itself if there is one. Its text
// lists each reason once, with the other affected targets, and at most MaxListed reasons, so that an outage affecting a
// thousand volumes takes a few lines. errors.Is and errors.As see all errors.
func Join(errs ...error) error {
	all := make([]error, 0, len(errs))
	for _, err := range errs {
		if err != nil {
			all = append(all, err)
		}
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &joined{errs: all}
}

type joined struct{ errs []error }

// Unwrap returns all errors, in the order in which they were given.
func (j *joined) Unwrap() []error { return j.errs }

// Error returns one line per reason.
func (j *joined) Error() string {
	type group struct {
		first  string
		others []string // targets
	}
	var groups []*group
	byReason := map[string]*group{}
	for _, err := range j.errs {
		reason := reasonOf(err)
		g, known := byReason[reason]
		if !known {
			g = &group{first: err.Error()}
			groups, byReason[reason] = append(groups, g), g
			continue
		}
		g.others = append(g.others, targetOf(err))
	}
	var lines []string
	for i, g := range groups {
		if i == MaxListed {
			lines = append(lines, fmt.Sprintf("and %d more reasons", len(groups)-i))
			break
		}
		if len(g.others) > 0 {
			g.first += " (" + sameFor(g.others) + ")"
		}
		lines = append(lines, g.first)
	}
	return strings.Join(lines, "\n")
}

// sameFor lists targets, and counts errors without one.
func sameFor(targets []string) string {
	var named []string
	for _, t := range targets {
		if t != "" {
			named = append(named, t)
		}
	}
	if len(named) < len(targets) {
		return fmt.Sprintf("%d times", len(targets)+1)
	}
	return "the same for " + List(named)
}

// requestID is AWS's per-response id, which differs between otherwise equal errors.
var requestID = regexp.MustCompile(`\(request [^)]*\)`)

// reasonOf returns the error's text without what differs between items: targets and request ids. Kubernetes quotes an
// object's name without its namespace.
func reasonOf(err error) string {
	text := requestID.ReplaceAllString(err.Error(), "")
	for _, target := range targets(err) {
		text = strings.ReplaceAll(text, target, "…")
		text = strings.ReplaceAll(text, `"`+target[strings.LastIndexByte(target, '/')+1:]+`"`, "…")
	}
	return text
}

// targetOf returns the outermost target.
func targetOf(err error) string {
	for _, target := range targets(err) {
		return target
	}
	return ""
}

// targets returns the non-empty targets of all Errors in the chain, outermost first.
func targets(err error) []string {
	var found []string
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			break
		}
		if e.Target != "" {
			found = append(found, e.Target)
		}
		err = e.Err
	}
	return found
}
