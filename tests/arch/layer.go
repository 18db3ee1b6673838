package arch

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Module is the path of the module that the rules are about.
const Module = "github.com/tisnap/tisnap"

// Violation is one place that breaks a rule.
type Violation struct {
	Where string // package or file:line
	What  string
}

// String is "where: what".
func (v Violation) String() string { return v.Where + ": " + v.What }

func violation(where, format string, args ...any) Violation {
	return Violation{Where: where, What: fmt.Sprintf(format, args...)}
}

// layers lists the parts of the program from the bottom up. A part imports only parts of lower layers.
func layers() [][]string {
	return [][]string{
		{"failure", "wait", "manifests"},
		{"cluster", "parallel", "outbound", "tracing", "sdkhttp", "fenced", "saturate"},
		{"reach", "copyplan"},
		{"archive/codec"},
		{"archive/format", "archive/ext4"},
		{"retention"},
		{"standin/disk", "standin/fault", "standin/timescale"},
		{"manifest"},
		{"kube/kubeerr", "kube/runmark", "kube/typed", "kube/podnodes"},
		{"kube/operator1", "kube/operator2", "kube/podreason"},
		{"kube/forward", "kube/cage", "kube/workers", "kube/blockvolume"},
		{"ebs", "objstore", "pd", "tikv", "kube", "tidb"},
		{"kube/kubetest", "ebsdirect", "archive/repository", "archive/lease"},
		{"archive/volume", "archive/archivetest", "archive/replace", "archive/units"},
		{"archive/snapshot", "archive/verify", "archive/bench", "archive/prune", "archive/claims"},
		{"archive/repair"},
		{"earlyapply", "marks", "phase"},
		{"catalog", "runlock", "journal", "storage"},
		{"hold", "runs", "runner"},
		{"preflight"},
		{"resolve"}, // a restore's phase "resolve data" is the use case resolve
		{"backup", "restore", "gc", "archive/create", "archive/importer", "copyrun", "lockset", "adopt"},
		{"drill"},
		{"ui", "report", "doctor"},
		{"history", "estimate", "notify", "metrics", "underway"},
		{"fleet"},
		{"exporter", "generate"},
		{"brcompat", "cli"},
		{"testbed/awsenv", "testbed/flashstore", "testbed/plane", "testbed/pod", "testbed/shipped", "testbed/workload"},
		{"testbed"},
		{"testbed/leak", "testbed/mishap", "testbed/round", "testbed/scale", "testbed/archivebench"},
		{"testbed/crash", "testbed/resume"},
		{"testbed/command"},
	}
}

// split lists the folders each of whose packages has a layer of its own.
func split() []string { return []string{"standin", "testbed", "kube", "archive"} }

// siblings lists the imports within one layer that are allowed, each with its reason.
func siblings() map[[2]string]string {
	return map[[2]string]string{}
}

// testOnly reports whether a part of the module is for the testbed and the tests: stand-ins, conformance
// suites, the testbed itself.
func testOnly(pkg string) bool {
	rel := strings.TrimPrefix(pkg, Module+"/")
	if anyBelow(rel, []string{"pkg/testbed", "pkg/standin", "tests", "cmd/testbed"}) {
		return true
	}
	parts := strings.Split(rel, "/")
	return len(parts) > 2 && parts[0] == "pkg" && parts[2] == parts[1]+"test"
}

// part is the layer table's name for a package, of pkg or manifests: "ebs" for pkg/ebs and all below it, but "testbed/round" for a
// part of the testbed; "" for one that has none.
func part(pkg string, known map[string]int) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(pkg, Module+"/"), "pkg/")
	for name := rel; name != "."; name = path.Dir(name) {
		if _, ok := known[name]; ok {
			if name != rel && slices.Contains(split(), name) {
				return ""
			}
			return name
		}
	}
	return ""
}

// Layering returns what breaks the rule that imports only point down. Imports are those of the package's
// non-test files; packages outside the module are ignored.
func Layering(pkg string, imports []string) []Violation {
	if !below(pkg, Module) || below(pkg, Module+"/tests") {
		return nil
	}
	known := map[string]int{}
	for depth, names := range layers() {
		for _, name := range names {
			known[name] = depth
		}
	}
	fromCmd := anyBelow(relative(pkg), []string{"cmd", "hack"})
	from := part(pkg, known)
	if !fromCmd && from == "" {
		return []Violation{violation(pkg, "has no layer: give it one in tests/arch/layer.go")}
	}
	var out []Violation
	for _, imported := range imports {
		if !below(imported, Module) {
			continue
		}
		to := part(imported, known)
		switch {
		case testOnly(imported) && !testOnly(pkg):
			out = append(out, violation(pkg, "imports %s, which is for tests and the testbed", imported))
		case fromCmd && strings.HasPrefix(imported, Module+"/pkg/"):
		case to == "" || fromCmd:
			out = append(out, violation(pkg, "imports %s, which has no layer below it", imported))
		case to == from:
		case known[to] > known[from]:
			out = append(out, violation(pkg, "imports %s of a higher layer", imported))
		case known[to] == known[from] && siblings()[[2]string{from, to}] == "":
			out = append(out, violation(pkg, "imports its sibling %s", imported))
		}
	}
	return out
}
