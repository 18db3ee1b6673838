package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// MaxExemptions is how many lines of shipped code may be kept from a linter, a few more than there are: each hides what
// the linter would find there later.
const MaxExemptions = 29

// Linters is what .golangci.yml defines: which linters run, and where they do not.
type Linters struct {
	Enable     []string
	Exclusions struct{ Rules []Exclusion }
}

// Exclusion keeps linters from the files that Path matches, or from those of their findings whose text or line Text or
// Source matches.
type Exclusion struct {
	Path, Text, Source string
	Linters            []string
}

// exemption is a comment that keeps linters from a line. It names them and has a reason.
var exemption = regexp.MustCompile(`^//nolint:(\w+(?:,\w+)*) // \S`)

// Exemptions checks the comments that keep linters from lines: each has a reason and names only linters that run on its
// file, and shipped code has at most MaxExemptions of them.
func Exemptions(linters Linters, sources []Source) []Violation {
	var out []Violation
	shipped := 0
	for _, s := range sources {
		if !bytes.Contains(s.Text, []byte("//nolint")) {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, s.Path, s.Text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // Style reports it
		}
		for _, c := range comments(file) {
			if !strings.HasPrefix(c.Text, "//nolint") {
				continue
			}
			if !s.isTest() && !testOnly(path.Dir(s.Path)) {
				shipped++
			}
			out = append(out, linters.exempted(s.Path, itoa(set.Position(c.Pos()).Line), c.Text)...)
		}
	}
	if shipped > MaxExemptions {
		out = append(out, violation("nolint", "%d lines of shipped code are kept from a linter, at most %d are allowed",
			shipped, MaxExemptions))
	}
	return out
}

func comments(file *ast.File) []*ast.Comment {
	var out []*ast.Comment
	for _, group := range file.Comments {
		out = append(out, group.List...)
	}
	return out
}

func (l Linters) exempted(file, line, comment string) []Violation {
	found := exemption.FindStringSubmatch(comment)
	if found == nil {
		return []Violation{violation(file+":"+line, "%q: want //nolint:LINTER // why", comment)}
	}
	var out []Violation
	for linter := range strings.SplitSeq(found[1], ",") {
		if !l.run(linter, file) {
			out = append(out, violation(file+":"+line, "%s does not run here: see .golangci.yml", linter))
		}
	}
	return out
}

// run reports whether the linter runs on the file.
func (l Linters) run(linter, file string) bool {
	return slices.Contains(l.Enable, linter) && !slices.ContainsFunc(l.Exclusions.Rules, func(e Exclusion) bool {
		return e.Text == "" && e.Source == "" && slices.Contains(e.Linters, linter) && regexp.MustCompile(e.Path).MatchString(file)
	})
}
