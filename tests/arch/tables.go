package arch

import (
	"go/ast"
	"strings"
)

// tables looks for tests whose cases have no names in the output, and for fuzz tests that only look for panics.
func (c *checker) tables() {
	if !c.source.usesTesting() {
		return
	}
	for _, decl := range c.file.Decls {
		d, ok := decl.(*ast.FuncDecl)
		if !ok || d.Body == nil {
			continue
		}
		c.loops(d)
		if strings.HasPrefix(d.Name.Name, "Fuzz") && c.source.isTest() && !c.asserts(d.Body) {
			c.report(d.Pos(), "%s asserts nothing: state the property that has to hold for every input", d.Name.Name)
		}
	}
}

// loops refuses a loop over a table of structs that asserts, but not in a test of its own a row.
func (c *checker) loops(d *ast.FuncDecl) {
	named := map[string]bool{} // variables that hold a table
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for i, value := range x.Rhs {
				if id, ok := x.Lhs[min(i, len(x.Lhs)-1)].(*ast.Ident); ok && isTable(value) {
					named[id.Name] = true
				}
			}
		case *ast.RangeStmt:
			id, isName := x.X.(*ast.Ident)
			if (isTable(x.X) || isName && named[id.Name]) && c.asserts(x.Body) && !runs(x.Body) {
				c.report(x.Pos(), "a loop over cases without t.Run: a failure does not name its case")
			}
		}
		return true
	})
}

// isTable reports whether an expression is a literal slice or map of anonymous structs.
func isTable(x ast.Expr) bool {
	literal, ok := x.(*ast.CompositeLit)
	if !ok {
		return false
	}
	var element ast.Expr
	switch t := literal.Type.(type) {
	case *ast.ArrayType:
		element = t.Elt
	case *ast.MapType:
		element = t.Value
	}
	_, ok = element.(*ast.StructType)
	return ok
}

// asserts reports whether something in the node can make a test fail.
func (c *checker) asserts(in ast.Node) bool {
	found := false
	ast.Inspect(in, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if c.called(call.Fun) != "" {
			found = true
		}
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			switch s.Sel.Name {
			case "Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow":
				found = true
			}
		}
		return !found
	})
	return found
}

// runs reports whether the node starts subtests.
func runs(in ast.Node) bool {
	found := false
	ast.Inspect(in, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Run" {
				found = true
			}
		}
		return !found
	})
	return found
}
