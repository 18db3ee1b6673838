package arch

import (
	"go/ast"
	"go/token"
	"strings"
)

// sleeps looks for tests that sleep by another name: that wait for a time to pass, and for nothing else. In a
// synctest bubble time is not real, so files that use one may.
func (c *checker) sleeps() {
	if !c.source.usesTesting() || c.imports("testing/synctest") {
		return
	}
	limits := c.limits()
	ast.Inspect(c.file, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.UnaryExpr:
			if x.Op == token.ARROW && c.isTimer(x.X) && !limits[x] {
				c.report(x.Pos(), "waits for time to pass: wait for what has to happen (require.Eventually), or use synctest")
			}
		case *ast.CallExpr:
			if name := c.called(x.Fun); name == "Never" || name == "Neverf" || name == "Eventually" || name == "Eventuallyf" {
				c.condition(name, x)
			}
		}
		return true
	})
}

// limits are the receives from a timer in a select that waits for something else too.
func (c *checker) limits() map[ast.Expr]bool {
	found := map[ast.Expr]bool{}
	ast.Inspect(c.file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectStmt)
		if !ok || len(s.Body.List) < 2 {
			return true
		}
		for _, clause := range s.Body.List {
			if comm, ok := clause.(*ast.CommClause); ok {
				if receive, ok := comm.Comm.(*ast.ExprStmt); ok {
					found[receive.X] = true
				}
			}
		}
		return true
	})
	return found
}

// isTimer reports whether an expression is a channel that only time makes ready: time.After(d), time.NewTimer(d).C.
func (c *checker) isTimer(x ast.Expr) bool {
	if s, ok := x.(*ast.SelectorExpr); ok && s.Sel.Name == "C" {
		x = s.X
	}
	call, ok := x.(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := s.X.(*ast.Ident)
	return ok && c.imported(from.Name) == "time" && (s.Sel.Name == "After" || s.Sel.Name == "NewTimer" || s.Sel.Name == "Tick")
}

// called is the name of a function of testify that is called, or "".
func (c *checker) called(fun ast.Expr) string {
	s, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	from, ok := s.X.(*ast.Ident)
	if !ok || !strings.HasPrefix(c.imported(from.Name), "github.com/stretchr/testify/") {
		return ""
	}
	return s.Sel.Name
}

// condition refuses a poll of a function that does nothing but return a constant.
func (c *checker) condition(name string, call *ast.CallExpr) {
	for _, arg := range call.Args {
		f, ok := arg.(*ast.FuncLit)
		if !ok || len(f.Body.List) != 1 {
			continue
		}
		r, ok := f.Body.List[0].(*ast.ReturnStmt)
		if !ok || len(r.Results) != 1 {
			continue
		}
		if id, ok := r.Results[0].(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
			c.report(call.Pos(), "%s of a constant waits for time to pass: give it a condition", name)
		}
	}
}

func (c *checker) imports(path string) bool {
	for _, spec := range c.file.Imports {
		if strings.Trim(spec.Path.Value, `"`) == path {
			return true
		}
	}
	return false
}
