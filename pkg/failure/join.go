package failure

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Join is errors.Join for the errors of many items: nil without an error, the error itself if there is one. Its
// text has each reason once, with the other targets that met it, and no more than MaxListed reasons, so that an
// outage that fails a thousand volumes is a few lines. errors.Is and errors.As see all of them.
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

// Error has a line for each reason.
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

// sameFor lists targets, those of errors that name none by their number.
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

// requestID is what AWS adds to each answer: it differs between answers that are alike.
var requestID = regexp.MustCompile(`\(request [^)]*\)`)

// reasonOf is the error's text without what differs between items: their targets and the ids of requests. Kubernetes
// quotes the name of an object without its namespace.
func reasonOf(err error) string {
	text := requestID.ReplaceAllString(err.Error(), "")
	for _, target := range targets(err) {
		text = strings.ReplaceAll(text, target, "…")
		text = strings.ReplaceAll(text, `"`+target[strings.LastIndexByte(target, '/')+1:]+`"`, "…")
	}
	return text
}

// targetOf is the outermost target.
func targetOf(err error) string {
	for _, target := range targets(err) {
		return target
	}
	return ""
}

// targets are those of all Errors in the chain that are not empty, the outermost first.
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
