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

// partedTypes are the types of runs whose parts alone assign their fields.
func partedTypes() map[string]string {
	return map[string]string{"pkg/backup": "run", "pkg/resolve": "Resolver", "pkg/restore": "run"}
}

// parts looks for assignments to a field of a run's part, r.PART.FIELD: only the part's own methods may do that. A run is
// called r everywhere.
func (c *checker) parts(d *ast.FuncDecl) {
	of := partedTypes()[path.Dir(c.source.Path)]
	if of == "" || c.source.isTest() || d.Body == nil || isOfAnother(d, "r", of) {
		return
	}
	check := func(to ast.Expr) {
		if fields := selected(to, "r"); len(fields) > 1 {
			c.report(to.Pos(), "r.%s is assigned outside the methods of %s", strings.Join(fields, "."), fields[0])
		}
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, to := range n.Lhs {
				check(to)
			}
		case *ast.IncDecStmt:
			check(n.X)
		}
		return true
	})
}

// isOfAnother reports whether d is a method whose receiver has this name and is of another type.
func isOfAnother(d *ast.FuncDecl, name, of string) bool {
	if d.Recv == nil || len(d.Recv.List[0].Names) == 0 || d.Recv.List[0].Names[0].Name != name {
		return false
	}
	is := d.Recv.List[0].Type
	if pointer, ok := is.(*ast.StarExpr); ok {
		is = pointer.X
	}
	named, ok := is.(*ast.Ident)
	return !ok || named.Name != of
}

// selected returns the fields that an expression selects of a variable, the outermost first; nil if it is of another.
func selected(of ast.Expr, variable string) []string {
	var fields []string
	for {
		switch x := of.(type) {
		case *ast.SelectorExpr:
			fields, of = append([]string{x.Sel.Name}, fields...), x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.StarExpr:
			of = x.X
		case *ast.ParenExpr:
			of = x.X
		case *ast.Ident:
			if x.Name != variable {
				return nil
			}
			return fields
		default:
			return nil
		}
	}
}
