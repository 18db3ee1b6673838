package phasetest

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"

	"github.com/tisnap/tisnap/pkg/phase"
)

// module is the path that names of functions begin with.
const module = "github.com/tisnap/tisnap/"

// description is a function's comment in the source.
type description struct {
	file string // relative to the module's folder
	does string // the first sentence of its comment, without its name
}

// describe finds a function's declaration in the source: of a closure that of the function around it.
func describe(root string, f func(context.Context, *phase.Scope) error) (description, error) {
	full := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	rest, ours := strings.CutPrefix(strings.TrimSuffix(full, "-fm"), module)
	if !ours {
		return description{}, fmt.Errorf("%s is not in this module", full)
	}
	slash := strings.LastIndex(rest, "/")
	last, name, _ := strings.Cut(rest[slash+1:], ".")
	folder := path.Join(rest[:slash+1], last)
	receiver, method, isMethod := strings.Cut(strings.TrimPrefix(name, "(*"), ")")
	name = receiver
	if isMethod {
		name = strings.TrimPrefix(method, ".")
	} else {
		receiver = ""
	}
	name, _, _ = strings.Cut(name, ".") // a closure is "outer.func1"
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	if err != nil {
		return description{}, err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return description{}, err
		}
		for _, decl := range parsed.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Name.Name == name && receiverOf(d) == receiver {
				does := firstSentence(d.Doc.Text(), name)
				if does == "" {
					return description{}, fmt.Errorf("%s in %s has no comment", name, file)
				}
				return description{file: path.Join(folder, filepath.Base(file)), does: does}, nil
			}
		}
	}
	return description{}, fmt.Errorf("%s is not found in %s", full, folder)
}

// receiverOf is the name of the receiver's type, or "".
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return ""
	}
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if ident, ok := of.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

// firstSentence is the first sentence of a function's comment, without the function's name, fit for a table.
func firstSentence(comment, name string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text, _, _ = strings.Cut(text, ". ")
	text = strings.TrimSuffix(strings.TrimPrefix(text, name+" "), ".")
	return strings.ReplaceAll(text, "|", `\|`)
}
