package arch

import (
	"path"
	"regexp"
	"strings"
)

// Named are the things that a page may name: files and folders of the module by their path, files by their base name,
// and targets and variables of the Makefile.
type Named struct {
	Files   []string // of the module, by their path
	Targets map[string]bool
	// Except are names that a page may have nevertheless, each with its reason.
	Except map[string]string
}

// Compiled once: they run over every page.
var (
	namedPath   = regexp.MustCompile("(?m)(?:^|[\\s(`\"'=\\[#])((?:\\.\\./)*(?:pkg|docs|manifests|tests|hack|cmd|\\.ci)/[\\w./*{},-]*)")
	namedFile   = regexp.MustCompile("`([a-z_*]+\\.go)`")
	namedTarget = regexp.MustCompile("(?m)(?:`|^(?:\\$ )?)make ([a-z][a-z0-9-]*)((?: [A-Z_]+=[^\\s`]*)*)")
	targets     = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):|^([A-Z_]+) +\?=|\$\(([A-Z_]+)\)|\$\((?:if|or) \$\(([A-Z_]+)\)`)
)

// Targets returns the targets and the variables of a Makefile.
func Targets(makefile []byte) map[string]bool {
	out := map[string]bool{}
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		out[m[1]+m[2]+m[3]+m[4]] = true
	}
	return out
}

// Missing returns the files, folders and make targets that a page names and that are not there.
func (n Named) Missing(page Source) []Violation {
	var out []Violation
	missing := func(what string, found bool) {
		if !found && n.Except[what] == "" {
			out = append(out, violation(page.Path, "names %s, which does not exist", what))
		}
	}
	text := string(page.Text)
	for _, m := range namedPath.FindAllStringSubmatch(text, -1) {
		name := strings.TrimRight(m[1], ".,/")
		for _, one := range braces(strings.TrimLeft(name, "./")) {
			missing(one, n.hasPath(one) || n.hasPath("."+one))
		}
	}
	for _, m := range namedFile.FindAllStringSubmatch(text, -1) {
		missing(m[1], n.hasBase(m[1]))
	}
	for _, m := range namedTarget.FindAllStringSubmatch(text, -1) {
		missing("make "+m[1], n.Targets[m[1]])
		for _, assignment := range strings.Fields(m[2]) {
			variable, _, _ := strings.Cut(assignment, "=")
			missing("make's "+variable, n.Targets[variable])
		}
	}
	return out
}

// braces expands "a/{b,c}" to "a/b" and "a/c".
func braces(name string) []string {
	before, rest, found := strings.Cut(name, "{")
	among, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{name}
	}
	var out []string
	for _, one := range strings.Split(among, ",") {
		out = append(out, before+one+after)
	}
	return out
}

// hasPath reports whether the pattern is a file of the module, or a folder above one.
func (n Named) hasPath(pattern string) bool {
	for _, file := range n.Files {
		for ; file != "."; file = path.Dir(file) {
			if ok, err := path.Match(pattern, file); ok && err == nil {
				return true
			}
		}
	}
	return false
}

func (n Named) hasBase(pattern string) bool {
	for _, file := range n.Files {
		if ok, err := path.Match(pattern, path.Base(file)); ok && err == nil {
			return true
		}
	}
	return false
}
