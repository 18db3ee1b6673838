package arch

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

const (
	// MaxColumns is the width of a line of shipped code, with tabs of 4. A line that is one word is as long as it has to be.
	MaxColumns = 120
	// MaxRunFields is how many fields the type of a run may have: with more it is a bag that every file reads and writes.
	MaxRunFields = 12
)

// runTypes are the types that carry out a whole run, or a part of one that many files share.
func runTypes() map[string][]string {
	return map[string][]string{
		"pkg/backup": {"run"}, "pkg/restore": {"run"}, "pkg/restore/volumes": {"Maker"},
		"pkg/resolve": {"Resolver"}, "pkg/runner": {"Runner"}, "pkg/archive/create": {"run"}, "pkg/copyrun": {"run"},
		"pkg/drill": {"run"},
	}
}

// columns looks for lines that are too wide to read beside another. Raw strings are as they are shown.
func (c *checker) columns() {
	if c.source.isTest() || testOnly(path.Dir(c.source.Path)) {
		return
	}
	at := c.set.File(c.file.Package)
	raw := map[int]bool{}
	ast.Inspect(c.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(lit.Value, "`") {
			for line := at.Line(lit.Pos()); line <= at.Line(lit.End()); line++ {
				raw[line] = true
			}
		}
		return true
	})
	for i, line := range strings.Split(string(c.source.Text), "\n") {
		width := len([]rune(strings.ReplaceAll(line, "\t", "    ")))
		if width > MaxColumns && !raw[i+1] && len(strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "//"))) > 1 {
			c.report(at.LineStart(i+1), "the line has %d columns, at most %d are allowed", width, MaxColumns)
		}
	}
}

// fields counts those of a run's type.
func (c *checker) fields(d *ast.GenDecl) {
	if d.Tok != token.TYPE || c.source.isTest() {
		return
	}
	for _, spec := range d.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok || !slices.Contains(runTypes()[path.Dir(c.source.Path)], named.Name.Name) {
			continue
		}
		of, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		count := 0
		for _, field := range of.Fields.List {
			count += max(1, len(field.Names))
		}
		if count > MaxRunFields {
			c.report(spec.Pos(), "%s has %d fields, at most %d are allowed", named.Name.Name, count, MaxRunFields)
		}
	}
}
