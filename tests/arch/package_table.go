package arch

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// PackageTable is the Markdown table of the packages below pkg, from the top layer to the bottom, with the first
// sentence of each package's comment. Links are relative to docs/.
func PackageTable(sources []Source) string {
	about := map[string]string{}
	for _, s := range sources {
		folder, ok := strings.CutPrefix(path.Dir(s.Path), "pkg/")
		if !ok || s.isTest() {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), s.Path, s.Text, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil || file.Doc == nil {
			continue // Style and Documented report it
		}
		about[folder] = firstSentence(file.Doc.Text(), "Package "+file.Name.Name+" ")
	}
	known := map[string]int{}
	var order []string
	for depth, names := range slices.Backward(layers()) {
		for _, name := range names {
			known[name] = depth
			order = append(order, name)
		}
	}
	var b strings.Builder
	b.WriteString("| package | what it is |\n|---|---|\n")
	for _, name := range order {
		for _, folder := range slices.Sorted(maps.Keys(about)) {
			if part(Module+"/pkg/"+folder, known) == name {
				fmt.Fprintf(&b, "| [%s](../pkg/%s) | %s |\n", folder, folder, about[folder])
			}
		}
	}
	return b.String()
}

// firstSentence is the first sentence of a comment without its usual beginning, fit for a table.
func firstSentence(comment, beginning string) string {
	text := strings.Join(strings.Fields(comment), " ")
	text, _, _ = strings.Cut(text, ". ")
	text = strings.TrimSuffix(strings.TrimPrefix(text, beginning), ".")
	return strings.ReplaceAll(text, "|", `\|`)
}

// Missing returns the parts of the program that a text does not name as whole words: those of the layers, but not
// parts of parts and what does not exist yet.
func Missing(text string, exists func(part string) bool) []string {
	var out []string
	words := strings.FieldsFunc(text, func(r rune) bool { return !('a' <= r && r <= 'z') })
	for _, names := range layers() {
		for _, name := range names {
			if !strings.Contains(name, "/") && exists(name) && !slices.Contains(words, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
