package arch

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Documented returns the folders whose package has no comment in any non-test file. Folders that hold only
// tests need none.
func Documented(sources []Source) []Violation {
	documented := map[string]bool{}
	for _, s := range sources {
		if s.isTest() {
			continue
		}
		folder := path.Dir(s.Path)
		file, err := parser.ParseFile(token.NewFileSet(), s.Path, s.Text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			continue // Style reports it
		}
		has := file.Doc != nil && strings.TrimSpace(file.Doc.Text()) != ""
		documented[folder] = documented[folder] || has
	}
	var out []Violation
	for folder, ok := range documented {
		if !ok {
			out = append(out, violation(folder, "the package has no comment: write doc.go"))
		}
	}
	slices.SortFunc(out, func(a, b Violation) int { return strings.Compare(a.Where, b.Where) })
	return out
}
