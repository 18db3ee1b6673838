package fault

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a rule from "POSITION:POINT[:CODE][@N][xTIMES]", as given on the testbed's command line.
func Parse(text string) (Rule, error) {
	bad := func(why string) (Rule, error) { return Rule{}, fmt.Errorf("fault %q: %s", text, why) }
	rest, r := text, Rule{}
	if body, times, ok := cutLast(rest, "x"); ok {
		rest, r.Times = body, times
	}
	if body, nth, ok := cutLast(rest, "@"); ok {
		rest, r.Nth = body, nth
	}
	parts := strings.SplitN(rest, ":", 3)
	if len(parts) < 2 || parts[1] == "" {
		return bad("want POSITION:POINT, such as after:ec2.CreateSnapshots")
	}
	r.Point = parts[1]
	if len(parts) == 3 {
		r.Code = parts[2]
	}
	for _, p := range []Position{Before, After, Stall} {
		if p.String() == parts[0] {
			r.Position = p
			return r, nil
		}
	}
	return bad("want before, after or stall")
}

// cutLast splits off a number behind the last separator.
func cutLast(s, sep string) (string, int, bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, 0, false
	}
	n, err := strconv.Atoi(s[i+len(sep):])
	if err != nil || n < 1 {
		return s, 0, false
	}
	return s[:i], n, true
}
