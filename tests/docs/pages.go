package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Pages returns the texts of the pages that a person reads, by their path in the module, whose root is given.
func Pages(root string) (map[string]string, error) {
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "manifests/*.md", "hack/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return nil, err
			}
			out[filepath.ToSlash(rel)] = string(text)
		}
	}
	for _, page := range []string{"README.md", "docs/commands.md", "manifests/README.md"} {
		if out[page] == "" {
			return nil, fmt.Errorf("%s: no %s there", root, page)
		}
	}
	return out, nil
}

// Block is a fenced block of a page.
type Block struct {
	Language string
	Marker   string // the text of the HTML comment in the line above it, or ""
	Text     string // without the fences
	Line     int    // of the opening fence
}

// Blocks returns the fenced blocks of a page, in their order.
func Blocks(page string) []Block {
	var out []Block
	var open *Block
	before := ""
	for i, line := range strings.Split(page, "\n") {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open == nil:
			open = &Block{Language: language, Marker: comment(before), Line: i + 1}
		case fence:
			out, open = append(out, *open), nil
		case open != nil:
			open.Text += line + "\n"
		}
		before = line
	}
	return out
}

// comment returns the text of a line that is an HTML comment.
func comment(line string) string {
	text, opens := strings.CutPrefix(strings.TrimSpace(line), "<!--")
	text, closes := strings.CutSuffix(text, "-->")
	if !opens || !closes {
		return ""
	}
	return strings.TrimSpace(text)
}
