package arch

import (
	"regexp"
	"strings"
)

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// NamedTests requires that each row of a Markdown table of findings names tests, and that each of them exists.
func NamedTests(where, markdown string, sources []Source) []Violation {
	there := map[string]bool{}
	for _, s := range sources {
		if !s.isTest() {
			continue
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(s.Text), -1) {
			there[m[1]] = true
		}
	}
	var out []Violation
	for i, line := range strings.Split(markdown, "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| finding |") {
			continue
		}
		at := where + ":" + itoa(i+1)
		tests := testName.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 {
			out = append(out, violation(at, "names no test: %s", line))
		}
		for _, test := range tests {
			if !there[test[1]] {
				out = append(out, violation(at, "there is no test %s", test[1]))
			}
		}
	}
	return out
}
