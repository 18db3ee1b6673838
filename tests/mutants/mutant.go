package mutants

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// Mutant is one guard that is taken away.
type Mutant struct {
	// Name is what the program does without the guard.
	Name string
	// Promise is what that breaks: of the design's list of what must hold at all times, or of a package's doc.
	Promise string
	// File is the source that is changed, from the module's root; Old, which is in it exactly once, becomes New.
	File, Old, New string
	// Package and Tests are what has to fail: a package's folder, and what go test -run gets.
	Package, Tests string
}

// Apply returns the mutant's source. It fails if the patch does not apply, or the result does not parse.
func (m Mutant) Apply(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(string(text), m.Old); {
	case m.Old == "" || m.Old == m.New:
		return nil, errors.New("the patch changes nothing")
	case n == 0:
		return nil, fmt.Errorf("the patch does not apply: %s has no\n%s", m.File, m.Old)
	case n > 1:
		return nil, fmt.Errorf("the patch is ambiguous: %s has this %d times\n%s", m.File, n, m.Old)
	}
	mutated := []byte(strings.Replace(string(text), m.Old, m.New, 1))
	if _, err := parser.ParseFile(token.NewFileSet(), m.File, mutated, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("the mutant does not parse: %w", err)
	}
	return mutated, nil
}
