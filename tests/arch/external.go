package arch

import "strings"

// confinement keeps the packages below a path to some parts of the module.
type confinement struct {
	path   string
	to     []string // folders of the module
	except []string // paths below path that every package may import
	reason string
}

func confinements() []confinement {
	return []confinement{
		{
			path: "github.com/aws/", to: []string{"pkg/ebs", "pkg/ebsdirect", "pkg/objstore", "pkg/sdkhttp"},
			reason: "the AWS SDK's types stay inside the adapters",
		},
		{
			path: "github.com/pingcap/kvproto", to: []string{"pkg/pd", "pkg/tikv", "pkg/testbed"},
			reason: "PD's and TiKV's messages stay inside the adapters",
		},
		{
			path: "github.com/tikv/", to: []string{"pkg/pd", "pkg/tikv", "pkg/testbed"},
			reason: "the clients of PD and TiKV stay inside the adapters",
		},
		{
			path: "google.golang.org/grpc", to: []string{"pkg/pd", "pkg/tikv", "pkg/tracing", "pkg/testbed"},
			reason: "status codes are translated by the adapters",
		},
		{
			path: "k8s.io/", to: []string{"pkg/kube", "pkg/testbed", "tests/operator", "tests/kube"},
			reason: "Kubernetes' types stay inside the adapter",
		},
		{
			path: "sigs.k8s.io/", to: []string{"pkg/kube", "pkg/testbed"}, except: []string{"sigs.k8s.io/yaml"},
			reason: "Kubernetes' types stay inside the adapter",
		},
		{
			path: "go.etcd.io/etcd/", to: []string{"pkg/pd"},
			reason: "that PD is an etcd is the adapter's business",
		},
		{
			path: "go.etcd.io/raft/", to: []string{"pkg/tikv/tikvtest", "pkg/pd/pdtest", "pkg/testbed"},
			reason: "only a stand-in replicates a log",
		},
		{
			path: "github.com/go-sql-driver/", to: []string{"pkg/tidb"},
			reason: "that TiDB speaks MySQL's protocol is the adapter's business",
		},
		{
			path: "github.com/go-mysql-org/", to: []string{"pkg/tidb/tidbtest"},
			reason: "only a stand-in serves MySQL's protocol",
		},
		{
			path: "github.com/spf13/", to: []string{"pkg/cli", "pkg/brcompat", "pkg/testbed/command", "cmd", "hack/man", "tests/docs"},
			reason: "flags are the command line's business",
		},
		{
			path: "github.com/jedib0t/go-pretty", to: []string{"pkg/report", "pkg/cli"},
			reason: "use cases do not render",
		},
	}
}

// Confinement returns the imports of the package's non-test files that belong inside other parts.
func Confinement(pkg string, imports []string) []Violation {
	var out []Violation
	for _, imported := range imports {
		for _, c := range confinements() {
			if below(imported, c.path) && !anyBelow(imported, c.except) && !anyBelow(relative(pkg), c.to) {
				out = append(out, violation(pkg, "imports %s: %s", imported, c.reason))
			}
		}
		if below(imported, "testing") || below(imported, "github.com/stretchr/testify") {
			if !strings.HasSuffix(pkg, "/suite") && !below(relative(pkg), "tests") {
				out = append(out, violation(pkg, "imports %s outside a test or a conformance suite", imported))
			}
		}
	}
	return out
}

// Linked returns what must not be among a shipped binary's dependencies, which are all packages that are
// linked into it.
func Linked(binary string, dependencies []string) []Violation {
	never := []string{
		"testing", "github.com/stretchr/testify", "go.uber.org/goleak", "pgregory.net/rapid",
		"go.etcd.io/raft", "github.com/go-mysql-org",
	}
	var out []Violation
	for _, d := range dependencies {
		if anyBelow(d, never) || (strings.HasPrefix(d, Module+"/") && testOnly(d)) {
			out = append(out, violation(binary, "links %s", d))
		}
	}
	return out
}

func relative(pkg string) string { return strings.TrimPrefix(pkg, Module+"/") }

// below reports whether a package is at a path or below it.
func below(pkg, path string) bool {
	path = strings.TrimSuffix(path, "/")
	return pkg == path || strings.HasPrefix(pkg, path+"/")
}

func anyBelow(pkg string, paths []string) bool {
	for _, p := range paths {
		if below(pkg, p) {
			return true
		}
	}
	return false
}
