package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// Lengths of source. Longer ones are hard to review; test functions often are tables.
const (
	MaxFileLines         = 500
	MaxFunctionLines     = 80
	MaxTestFunctionLines = 150
)

// Source is a Go file of the module.
type Source struct {
	Path string // relative to the module's root, with slashes
	Text []byte
}

func (s Source) isTest() bool { return strings.HasSuffix(s.Path, "_test.go") }

// isExample reports whether the file has examples, which get no testing.T.
func (s Source) isExample() bool { return strings.HasSuffix(s.Path, "/example_test.go") }

// usesTesting reports whether the file runs under the testing package: a test, or a suite that tests call.
func (s Source) usesTesting() bool {
	return s.isTest() || strings.Contains(s.Path, "/suite/")
}

// Style returns what breaks the rules for a single file. A file that does not parse breaks them.
func Style(s Source) []Violation {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, s.Path, s.Text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []Violation{violation(s.Path, "does not parse: %v", err)}
	}
	if ast.IsGenerated(file) {
		return nil
	}
	c := &checker{source: s, set: set, file: file}
	if lines := set.File(file.Package).LineCount(); lines > MaxFileLines {
		c.report(file.Package, "the file has %d lines, at most %d are allowed", lines, MaxFileLines)
	}
	for _, decl := range file.Decls {
		c.declaration(decl)
	}
	ast.Inspect(file, c.node)
	c.sleeps()
	c.polls()
	c.tables()
	c.columns()
	return c.found
}

type checker struct {
	source Source
	set    *token.FileSet
	file   *ast.File
	found  []Violation
}

func (c *checker) report(at token.Pos, format string, args ...any) {
	p := c.set.Position(at)
	c.found = append(c.found, violation(c.source.Path+":"+itoa(p.Line), format, args...))
}

// node looks for calls that wait without a context, or have one that nothing cancels.
func (c *checker) node(n ast.Node) bool {
	selector, ok := n.(*ast.SelectorExpr)
	if !ok {
		return true
	}
	from, ok := selector.X.(*ast.Ident)
	if !ok {
		return true
	}
	switch name := c.imported(from.Name) + "." + selector.Sel.Name; {
	case name == "time.Sleep":
		c.report(n.Pos(), "time.Sleep ignores its context: wait on a channel, a timer or require.Eventually")
	case c.source.usesTesting() && !c.source.isExample() && (name == "context.Background" || name == "context.TODO"):
		c.report(n.Pos(), "%s in a test: use t.Context()", name)
	}
	return true
}

// imported is the path of the import with that local name, or "".
func (c *checker) imported(local string) string {
	for _, spec := range c.file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == local {
			return path
		}
	}
	return ""
}

func (c *checker) declaration(decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		c.function(d)
		c.parts(d)
	case *ast.GenDecl:
		c.general(d)
		c.fields(d)
	}
}

func (c *checker) function(d *ast.FuncDecl) {
	limit := MaxFunctionLines
	if c.source.usesTesting() {
		limit = MaxTestFunctionLines
	}
	if lines := c.set.Position(d.End()).Line - c.set.Position(d.Pos()).Line + 1; lines > limit {
		c.report(d.Pos(), "%s has %d lines, at most %d are allowed", d.Name.Name, lines, limit)
	}
	if d.Recv == nil && d.Name.Name == "init" {
		c.report(d.Pos(), "init runs unseen: call it from where it is needed")
	}
	if c.mustDocument(d.Name) && exportedReceiver(d) && d.Doc == nil {
		c.report(d.Pos(), "%s is exported and has no comment", d.Name.Name)
	}
}

// general accepts the comment of a group for its constants and variables, but not for its types.
func (c *checker) general(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if c.mustDocument(s.Name) && s.Doc == nil && s.Comment == nil && (d.Doc == nil || d.Lparen.IsValid()) {
				c.report(s.Pos(), "%s is exported and has no comment", s.Name.Name)
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if c.mustDocument(name) && s.Doc == nil && s.Comment == nil && d.Doc == nil {
					c.report(name.Pos(), "%s is exported and has no comment", name.Name)
				}
			}
		}
	}
}

func (c *checker) mustDocument(name *ast.Ident) bool {
	return name.IsExported() && !c.source.isTest() && strings.HasPrefix(c.source.Path, "pkg/")
}

// exportedReceiver is true for functions too.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}
