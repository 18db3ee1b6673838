package arch

import (
	"bufio"
	"io"
	"slices"
	"strings"
)

// MaxBinaryBytes is how large a stripped program may be. Archives took it beyond 50 MB; a dependency that calls methods
// by name adds 20 MB or more at once.
const MaxBinaryBytes = 55_000_000

// Reflector finds in the linker's -dumpdep output the callers of methods whose names are only known at run time.
// One such call is enough for the linker to keep every exported method of every type, all of the EC2 client's
// among them. It returns the packages from the program's start to that call, or nil when there is none.
func Reflector(dump io.Reader) ([]string, error) {
	parent := map[string]string{}
	lines := bufio.NewScanner(dump)
	lines.Buffer(make([]byte, 0, 64<<10), 16<<20)
	for lines.Scan() {
		from, to, ok := strings.Cut(lines.Text(), " -> ")
		if !ok {
			continue
		}
		from, to = symbol(from), strings.TrimSpace(to)
		if _, seen := parent[symbol(to)]; !seen {
			parent[symbol(to)] = from
		}
		if strings.Contains(to, "<ReflectMethod>") {
			return chain(parent, symbol(to)), nil
		}
	}
	return nil, lines.Err()
}

// chain walks up from a symbol and names each package once.
func chain(parent map[string]string, from string) []string {
	var packages []string
	seen := map[string]bool{}
	for at := from; at != "" && !seen[at]; at = parent[at] {
		seen[at] = true
		if p := packageOf(at); p != "" && (len(packages) == 0 || packages[len(packages)-1] != p) {
			packages = append(packages, p)
		}
	}
	slices.Reverse(packages)
	return packages
}

// symbol is the name without the linker's marks.
func symbol(s string) string {
	if at := strings.Index(s, " <"); at >= 0 {
		s = s[:at]
	}
	return strings.TrimSpace(s)
}

// packageOf is the import path that a function's symbol starts with; "" for data and types.
func packageOf(symbol string) string {
	if strings.Contains(symbol, ":") {
		return ""
	}
	folder := strings.LastIndex(symbol, "/") + 1
	dot := strings.Index(symbol[folder:], ".")
	if dot < 0 {
		return ""
	}
	return symbol[:folder+dot]
}
