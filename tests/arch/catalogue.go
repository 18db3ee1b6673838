package arch

import (
	"regexp"
	"slices"
	"strings"
)

var (
	catalogueRow = regexp.MustCompile(`^\| ([A-H]\d+) \| ([^|]+) \| \[[^\]]+\]\(https://[^)]+\) \| ([^|]*)\|$`)
	namedTest    = regexp.MustCompile(`(?m)^func (Test([A-H]\d+)_\w+)\(`)
	testName     = regexp.MustCompile("`(Test\\w+)`")
)

// Catalogue holds the catalogue of failures, a Markdown file, against the tests: every name that a test function has
// is in it, with that test beside it, and every test beside a name exists and has that name.
func Catalogue(where, markdown string, sources []Source) []Violation {
	var out []Violation
	listed := map[string][]string{} // tests by failure
	for i, line := range strings.Split(markdown, "\n") {
		at := where + ":" + itoa(i+1)
		m := catalogueRow.FindStringSubmatch(line)
		switch {
		case m == nil && strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| name |"):
			out = append(out, violation(at, "is no row of name, what happened, source and tests: %s", line))
			continue
		case m == nil:
			continue
		}
		if _, twice := listed[m[1]]; twice {
			out = append(out, violation(at, "%s is there twice", m[1]))
		}
		listed[m[1]] = []string{}
		for _, test := range testName.FindAllStringSubmatch(m[3], -1) {
			listed[m[1]] = append(listed[m[1]], test[1])
		}
	}
	there := map[string]bool{}
	for _, s := range sources {
		for _, m := range namedTest.FindAllStringSubmatch(string(s.Text), -1) {
			there[m[1]] = true
			tests, known := listed[m[2]]
			switch {
			case !s.isTest():
			case !known:
				out = append(out, violation(s.Path, "%s has the name of a failure that is not in %s", m[1], where))
			case !slices.Contains(tests, m[1]):
				out = append(out, violation(s.Path, "%s is not beside %s in %s", m[1], m[2], where))
			}
		}
	}
	for name, tests := range listed {
		for _, test := range tests {
			if !there[test] || !strings.HasPrefix(test, "Test"+name+"_") {
				out = append(out, violation(where, "%s: there is no test %s of that failure", name, test))
			}
		}
	}
	return out
}
