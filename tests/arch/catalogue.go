package arch

import (
	"regexp"
	"slices"
	"strings"
)

var (
	catalogueRow = regexp.MustCompile(`^\| ([A-H]\d+) \| ([^|]+) \| \[[^\]]+\]\(https://[^)]+\) \| ([^|]*)\|$`)
	// codedTest is a test with the line above it that names the failure.
	codedTest = regexp.MustCompile(`(?m)^// Catalogue: ([A-H]\d+)\.\nfunc (Test\w+)\(`)
	codeLine  = regexp.MustCompile(`(?m)^\s*// Catalogue: .*$`)
	codeName  = regexp.MustCompile(`(?m)^func (Test[A-H]\d+_\w+)\(`)
	testName  = regexp.MustCompile("`(Test\\w+)`")
)

// Catalogue holds the catalogue of failures, a Markdown file, against the tests: every code that is above a test function is
// in it, with that test beside it, and every test beside a code exists and has that code above it. A test is named after
// what fails, and not after its code.
func Catalogue(where, markdown string, sources []Source) []Violation {
	var out []Violation
	listed := map[string][]string{} // tests by code
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
	there := map[string]string{} // codes by test
	for _, s := range sources {
		if !s.isTest() {
			continue
		}
		text := string(s.Text)
		for _, m := range codeName.FindAllStringSubmatch(text, -1) {
			out = append(out, violation(s.Path, "%s is named after a code: name it after the failure, with the code above it", m[1]))
		}
		coded := codedTest.FindAllStringSubmatch(text, -1)
		if lines := len(codeLine.FindAllString(text, -1)); lines != len(coded) {
			out = append(out, violation(s.Path, "%d lines name codes of the catalogue, and %d are right above a test", lines, len(coded)))
		}
		for _, m := range coded {
			code, test := m[1], m[2]
			there[test] = code
			tests, known := listed[code]
			switch {
			case !known:
				out = append(out, violation(s.Path, "%s has the code %s, which is not in %s", test, code, where))
			case !slices.Contains(tests, test):
				out = append(out, violation(s.Path, "%s is not beside %s in %s", test, code, where))
			}
		}
	}
	for code, tests := range listed {
		for _, test := range tests {
			if there[test] != code {
				out = append(out, violation(where, "%s: there is no test %s of that failure", code, test))
			}
		}
	}
	return out
}
