package retention

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Span is a time in calendar units, so months differ in length. It is a flag value, such as 1y6m, 14d or 2d12h.
type Span struct {
	Years, Months, Weeks, Days, Hours int
}

// ParseSpan parses years, months, weeks, days and hours in this order, each at most once and not all zero: 1y6m2w3d12h.
func ParseSpan(text string) (Span, error) {
	found := regexp.MustCompile(`^(?:(\d{1,4})y)?(?:(\d{1,5})m)?(?:(\d{1,5})w)?(?:(\d{1,6})d)?(?:(\d{1,7})h)?$`).
		FindStringSubmatch(text)
	var s Span
	if found != nil {
		for i, field := range []*int{&s.Years, &s.Months, &s.Weeks, &s.Days, &s.Hours} {
			*field, _ = strconv.Atoi(found[i+1]) // digits, or empty for zero
		}
	}
	if s == (Span{}) {
		return s, fmt.Errorf("%q: want years, months, weeks, days and hours, as 1y6m, 14d or 2d12h", text)
	}
	return s, nil
}

// Before returns the time that is this long before t.
func (s Span) Before(t time.Time) time.Time {
	return t.AddDate(-s.Years, -s.Months, -7*s.Weeks-s.Days).Add(-time.Duration(s.Hours) * time.Hour)
}

// String returns what ParseSpan parses; empty for zero.
func (s Span) String() string {
	var out strings.Builder
	for _, part := range []struct {
		n    int
		unit string
	}{{s.Years, "y"}, {s.Months, "m"}, {s.Weeks, "w"}, {s.Days, "d"}, {s.Hours, "h"}} {
		if part.n != 0 {
			fmt.Fprintf(&out, "%d%s", part.n, part.unit)
		}
	}
	return out.String()
}

// Set parses a flag's value.
func (s *Span) Set(text string) (err error) {
	*s, err = ParseSpan(text)
	return err
}

// Type names the value in a flag's help.
func (s *Span) Type() string { return "time" }
