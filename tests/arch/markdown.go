package arch

import (
	"path"
	"regexp"
	"strings"
)

// MaxReadmeLines keeps the README a page that is read to its end; the rest is in docs/.
const MaxReadmeLines = 150

// ReadmeLength returns a violation for a README that is too long.
func ReadmeLength(readme Source) []Violation {
	if lines := strings.Count(string(readme.Text), "\n"); lines > MaxReadmeLines {
		return []Violation{violation(readme.Path, "it has %d lines, at most %d are allowed: the rest belongs in docs/", lines, MaxReadmeLines)}
	}
	return nil
}

// Links returns the links of a Markdown page that lead nowhere within the module: to a file or folder for which
// exists is false, or to a heading that the page of that path does not have. pages are all pages by their path.
// Links to other sites are not followed.
func Links(page Source, pages map[string]Source, exists func(path string) bool) []Violation {
	var out []Violation
	text := fence().ReplaceAllString(string(page.Text), "")
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, ":") {
			continue
		}
		file := page.Path
		if target != "" {
			file = path.Join(path.Dir(page.Path), target)
		}
		to, isPage := pages[file]
		switch {
		case !isPage && !exists(file):
			out = append(out, violation(page.Path, "links to %s, which does not exist", m[1]))
		case isPage && anchor != "" && !anchors(to)[anchor]:
			out = append(out, violation(page.Path, "links to %s, which has no such heading", m[1]))
		}
	}
	return out
}

// fence matches a block of code.
func fence() *regexp.Regexp { return regexp.MustCompile("(?ms)^ *```.*?^ *```$") }

// anchors are the headings of a page as GitHub spells them in links.
func anchors(page Source) map[string]bool {
	out := map[string]bool{}
	text := fence().ReplaceAllString(string(page.Text), "")
	drop := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		out[strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return out
}
