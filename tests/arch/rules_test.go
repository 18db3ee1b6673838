package arch_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/tisnap/tisnap/tests/arch"
)

func in(rel string) string { return arch.Module + "/" + rel }

func TestLayering_Samples(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, from, to string
		want           string // in the violation's text; "" is allowed
	}{
		{"down", "pkg/backup", "pkg/ebs", ""},
		{"down to the vocabulary", "pkg/ebs", "pkg/failure", ""},
		{"report takes the engine's timings", "pkg/report", "pkg/phase", ""},
		{"restore resolves", "pkg/restore", "pkg/resolve", ""},
		{"a stand-in to its adapter", "pkg/ebs/ebstest", "pkg/ebs", ""},
		{"a stand-in to a helper of the stand-ins", "pkg/ebs/ebstest", "pkg/standin/fault", ""},
		{"the testbed to stand-ins", "pkg/testbed", "pkg/tikv/tikvtest", ""},
		{"a part of the testbed to an adapter", "pkg/testbed/workload", "pkg/pd", ""},
		{"the testbed's command line to its parts", "pkg/testbed/command", "pkg/testbed/resume", ""},
		{"a round to the workload", "pkg/testbed/round", "pkg/testbed/workload", ""},
		{"a command to the command line", "cmd/tisnap", "pkg/cli", ""},
		{"the testbed's command", "cmd/testbed", "pkg/testbed", ""},
		{"another module", "pkg/cluster", "../elsewhere/x", ""},
		{"up", "pkg/ebs", "pkg/hold", "higher layer"},
		{"up from the vocabulary", "pkg/failure", "pkg/cluster", "higher layer"},
		{"a use case to the delivery", "pkg/backup", "pkg/ui", "higher layer"},
		{"resolve to restore", "pkg/resolve", "pkg/restore", "higher layer"},
		{"sibling adapters", "pkg/pd", "pkg/tikv", "sibling"},
		{"sibling use cases", "pkg/backup", "pkg/restore", "sibling"},
		{"sibling stand-ins", "pkg/pd/pdtest", "pkg/tikv/tikvtest", "sibling"},
		{"an adapter to its stand-in", "pkg/ebs", "pkg/ebs/ebstest", "for tests"},
		{"a use case to the testbed", "pkg/backup", "pkg/standin/fault", "for tests"},
		{"a shipped command to the testbed", "cmd/tisnap", "pkg/testbed", "for tests"},
		{"the testbed to a part above it", "pkg/testbed", "pkg/testbed/round", "higher layer"},
		{"the workload to the testbed", "pkg/testbed/workload", "pkg/testbed", "higher layer"},
		{"the client of Kubernetes to port forwards", "pkg/kube", "pkg/kube/forward", ""},
		{"port forwards to the client", "pkg/kube/forward", "pkg/kube", "higher layer"},
		{"a generation of TiDB Operator to port forwards", "pkg/kube/operator1", "pkg/kube/forward", "higher layer"},
		{"an unknown part of kube", "pkg/kube/utils", "pkg/cluster", "has no layer"},
		{"sibling parts of the testbed", "pkg/testbed/round", "pkg/testbed/leak", "sibling"},
		{"a stand-in's helper to the testbed", "pkg/standin/fault", "pkg/testbed", "higher layer"},
		{"an unknown part of the testbed", "pkg/testbed/utils", "pkg/ebs", "has no layer"},
		{"an unknown helper of the stand-ins", "pkg/standin/utils", "pkg/cluster", "has no layer"},
		{"to a command", "pkg/cli", "cmd/tisnap", "no layer below"},
		{"a command to a command", "cmd/br", "cmd/tisnap", "no layer below"},
		{"to tests", "pkg/cli", "tests/arch", "for tests"},
		{"tests of the whole program", "tests", "pkg/testbed", ""},
		{"an unknown package", "pkg/utils", "pkg/ebs", "has no layer"},
		{"to an unknown package", "pkg/cli", "pkg/utils", "no layer below"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			to := in(c.to)
			if strings.HasPrefix(c.to, "../") {
				to = "example.com/elsewhere"
			}
			expect(t, c.want, arch.Layering(in(c.from), []string{"fmt", to}))
		})
	}
}

func TestConfinement_Samples(t *testing.T) {
	t.Parallel()
	cases := []struct{ from, to, want string }{
		{"pkg/ebs", "github.com/aws/aws-sdk-go-v2/service/ec2", ""},
		{"pkg/objstore", "github.com/aws/aws-sdk-go-v2/service/s3", ""},
		{"pkg/backup", "github.com/aws/aws-sdk-go-v2/aws", "AWS SDK"},
		{"pkg/tikv/tikvtest", "github.com/pingcap/kvproto/pkg/kvrpcpb", ""},
		{"pkg/testbed/workload", "github.com/tikv/client-go/v2/tikv", ""},
		{"pkg/resolve", "github.com/pingcap/kvproto/pkg/metapb", "messages"},
		{"pkg/resolve", "google.golang.org/grpc/status", "status codes"},
		{"pkg/kube", "k8s.io/client-go/dynamic", ""},
		{"pkg/testbed", "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured", ""},
		{"pkg/restore", "k8s.io/api/core/v1", "Kubernetes"},
		{"pkg/cli", "sigs.k8s.io/yaml", ""},
		{"pkg/cli", "sigs.k8s.io/json", "Kubernetes"},
		{"pkg/tikv", "go.etcd.io/raft/v3", "stand-in"},
		{"pkg/tidb", "github.com/go-sql-driver/mysql", ""},
		{"pkg/drill/checks", "github.com/go-sql-driver/mysql", "adapter"},
		{"pkg/tidb", "github.com/go-mysql-org/go-mysql/server", "stand-in"},
		{"pkg/backup", "github.com/spf13/cobra", "flags"},
		{"pkg/testbed", "github.com/spf13/cobra", "flags"},
		{"pkg/testbed/command", "github.com/spf13/cobra", ""},
		{"pkg/backup", "github.com/jedib0t/go-pretty/v6/table", "render"},
		{"pkg/ebs/ebstest", "testing", "conformance suite"},
		{"pkg/ebs/ebstest/suite", "testing", ""},
		{"pkg/ebs", "github.com/stretchr/testify/require", "conformance suite"},
		{"pkg/ebs", "testing/synctest", "conformance suite"},
		{"pkg/ebs", "k8s.io.example.com/x", ""},
	}
	for _, c := range cases {
		t.Run(c.from+" "+c.to, func(t *testing.T) {
			t.Parallel()
			expect(t, c.want, arch.Confinement(in(c.from), []string{"fmt", c.to}))
		})
	}
}

func TestLinked_Samples(t *testing.T) {
	t.Parallel()
	for dependency, want := range map[string]string{
		"fmt": "", in("pkg/ebs"): "", "github.com/aws/aws-sdk-go-v2/service/ec2": "",
		in("pkg/standin/fault"): "links", in("pkg/ebs/ebstest"): "links", in("pkg/tikv/tikvtest/mvcc"): "links",
		"testing": "links", "testing/iotest": "links", "github.com/stretchr/testify/assert": "links",
		"go.etcd.io/raft/v3/raftpb": "links", "github.com/go-mysql-org/go-mysql/server": "links",
	} {
		expect(t, want, arch.Linked("cmd/tisnap", []string{dependency}))
	}
}

func TestStyle_Samples(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat("\n", arch.MaxFileLines)
	pausing := "package x\nimport \"" + in("pkg/wait") + "\"\nfunc f() { for { if wait.For(nil, 1) != nil { return } } }\n"
	long := "func long() {" + strings.Repeat("\n", arch.MaxFunctionLines) + "}\n"
	cases := []struct{ name, path, text, want string }{
		{"clean", "pkg/x/x.go", "package x\n\n// F does.\nfunc F() {}\n", ""},
		{"does not parse", "pkg/x/x.go", "package", "does not parse"},
		{"sleeps", "pkg/x/x.go", "package x\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "time.Sleep"},
		{"sleeps under another name", "pkg/x/x_test.go", "package x\nimport t \"time\"\nvar f = t.Sleep\n", "time.Sleep"},
		{"another Sleep", "pkg/x/x.go", "package x\nfunc f(time interface{ Sleep() }) { time.Sleep() }\n", ""},
		{"background in a test", "pkg/x/x_test.go", "package x\nimport \"context\"\nvar c = context.Background()\n", "t.Context()"},
		{"todo in a suite", "pkg/x/xtest/suite/a.go", "package suite\nimport \"context\"\nvar c = context.TODO()\n", "t.Context()"},
		{"background in an example", "pkg/x/example_test.go", "package x\nimport \"context\"\nvar c = context.Background()\n", ""},
		{"background in a command", "cmd/x/main.go", "package main\nimport \"context\"\nvar c = context.Background()\n", ""},
		{"pauses in a loop", "pkg/x/x.go", pausing, "use wait.Until"},
		{"pauses in a loop that is listed", "pkg/runs/read.go", pausing, ""},
		{"pauses in a test", "pkg/x/x_test.go", pausing, ""},
		{"is listed and does not pause", "pkg/runs/read.go", "package runs\n", "it is in polls.go"},
		{"waits for time", "pkg/x/x_test.go", "package x\nimport \"time\"\nfunc f() { <-time.After(1) }\n", "time to pass"},
		{"waits for a timer", "pkg/x/xtest/suite/x.go", "package x\nimport t \"time\"\nfunc f() { <-t.NewTimer(1).C }\n", "time to pass"},
		{"selects time alone", "pkg/x/x_test.go", "package x\nimport \"time\"\nfunc f() { select { case <-time.After(1): } }\n", "time to pass"},
		{"limits a wait", "pkg/x/x_test.go", "package x\nimport \"time\"\nfunc f(c chan int) { select { case <-c:\ncase <-time.After(1): } }\n", ""},
		{"waits in a bubble", "pkg/x/x_test.go", "package x\nimport (\n\"time\"\n_ \"testing/synctest\"\n)\nfunc f() { <-time.After(1) }\n", ""},
		{"waits outside a test", "pkg/x/x.go", "package x\nimport \"time\"\nfunc f() { <-time.After(1) }\n", ""},
		{"another After", "pkg/x/x_test.go", "package x\nfunc f(time interface{ After() chan int }) { <-time.After() }\n", ""},
		{"polls a constant", "pkg/x/x_test.go", polls("require", "Never", "false"), "of a constant"},
		{"polls a constant for ever", "pkg/x/x_test.go", polls("assert", "Eventually", "true"), "of a constant"},
		{"polls a condition", "pkg/x/x_test.go", polls("require", "Never", "len(x) > 0"), ""},
		{"cases without names", "pkg/x/x_test.go", table("cases := []struct{ a int }{{1}}\nfor _, c := range cases { require.Positive(t, c.a) }"), "without t.Run"},
		{"cases in place without names", "pkg/x/x_test.go", table("for _, c := range map[string]struct{ a int }{} { require.Positive(t, c.a) }"), "without t.Run"},
		{"cases with names", "pkg/x/x_test.go", table("for n, c := range map[string]struct{ a int }{} { t.Run(n, func(t *testing.T) { require.Positive(t, c.a) }) }"), ""},
		{"a table that is only prepared", "pkg/x/x_test.go", table("for _, c := range []struct{ a int }{} { prepare(c.a) }"), ""},
		{"a loop over what came out", "pkg/x/x_test.go", table("for _, c := range got() { require.Positive(t, c.a) }"), ""},
		{"fuzz without a property", "pkg/x/x_test.go", "package x\nfunc FuzzX(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { parse(b) }) }\n", "asserts nothing"},
		{"fuzz with a property", "pkg/x/x_test.go", "package x\nfunc FuzzX(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { if parse(b) { t.Fatal() } }) }\n", ""},
		{"init", "pkg/x/x.go", "package x\nfunc init() {}\n", "init runs unseen"},
		{"undocumented function", "pkg/x/x.go", "package x\nfunc F() {}\n", "F is exported"},
		{"undocumented function of a test", "pkg/x/x_test.go", "package x\nfunc F() {}\n", ""},
		{"undocumented function of a command", "cmd/x/x.go", "package main\nfunc F() {}\n", ""},
		{"undocumented method", "pkg/x/x.go", "package x\n// T is.\ntype T[A any] struct{}\nfunc (*T[A]) F() {}\n", "F is exported"},
		{"method of an unexported type", "pkg/x/x.go", "package x\ntype t struct{}\nfunc (t) F() {}\n", ""},
		{"undocumented type", "pkg/x/x.go", "package x\ntype T int\n", "T is exported"},
		{"type in a documented group", "pkg/x/x.go", "package x\n// Types.\ntype (\n\tT int\n)\n", "T is exported"},
		{"type with a trailing comment", "pkg/x/x.go", "package x\ntype (\n\tT int // is one\n)\n", ""},
		{"undocumented constant", "pkg/x/x.go", "package x\nconst C = 1\n", "C is exported"},
		{"constant in a documented group", "pkg/x/x.go", "package x\n// Some.\nconst (\n\tC = 1\n)\n", ""},
		{"long file", "pkg/x/x_test.go", "package x\n" + lines, "lines"},
		{"file of the greatest length", "pkg/x/x.go", "package x\n" + lines[1:], ""},
		{"generated file", "pkg/x/x.go", "// Code generated by x. DO NOT EDIT.\n\npackage x\n" + lines, ""},
		{"long function", "pkg/x/x.go", "package x\n" + long, "long has 81 lines"},
		{"wide line", "pkg/x/x.go", "package x\n\n// " + strings.Repeat("a ", arch.MaxColumns/2) + "\n", "the line has 123 columns"},
		{"line of the greatest width", "pkg/x/x.go", "package x\n\n// " + strings.Repeat("a ", arch.MaxColumns/2-2) + "a\n", ""},
		{"wide line of tabs", "cmd/x/x.go", "package main\n\n" + strings.Repeat("\t", arch.MaxColumns/4) + "var x int\n", "columns"},
		{"wide line of one word", "pkg/x/x.go", "package x\n\n// https://" + strings.Repeat("a", arch.MaxColumns) + "\n", ""},
		{"wide line of a raw string", "pkg/x/x.go", "package x\n\nvar x = `\n" + strings.Repeat("a ", arch.MaxColumns) + "\n`\n", ""},
		{"wide line of a test", "pkg/x/x_test.go", "package x\n\n// " + strings.Repeat("a ", arch.MaxColumns) + "\n", ""},
		{"wide line of a stand-in", "pkg/x/xtest/x.go", "package xtest\n\n// " + strings.Repeat("a ", arch.MaxColumns) + "\n", ""},
		{"a run with too many fields", "pkg/restore/x.go", "package restore\n\ntype run struct {\n\tstring\n" + strings.Repeat("\ta, b int\n", arch.MaxRunFields/2) + "}\n", "run has 13 fields"},
		{"a run with as many fields as it may have", "pkg/restore/x.go", "package restore\n\ntype run struct {\n" + strings.Repeat("\ta, b int\n", arch.MaxRunFields/2) + "}\n", ""},
		{"another type with many fields", "pkg/restore/x.go", "package restore\n\ntype x struct {\n" + strings.Repeat("\ta, b int\n", arch.MaxRunFields) + "}\n", ""},
		{"long function of a test", "pkg/x/x_test.go", "package x\n" + long, ""},
		{"a part's field assigned by a step", inRestore, restoring("r *run", "r.target.bound = true"), "r.target.bound is assigned"},
		{"one of several", inRestore, restoring("r *run", "x, r.pd.PD = 1, 2"), "r.pd.PD is assigned outside the methods of pd"},
		{"one of a run that is a variable", inRestore, restoring("o *Other", "r := newRun(); r.target.existing = true"), "r.target.existing"},
		{"one of a part's part", inRestore, restoring("r *run", "(*r.making.fast).on[1] = true"), "r.making.fast.on"},
		{"one that is counted", inRestore, restoring("r *run", "r.result.tries++"), "r.result.tries"},
		{"a part as a whole", inRestore, restoring("r *run", "r.backup = r.backup.with(m)"), ""},
		{"a part's field in its own method", inRestore, restoring("t *target", "t.bound = true"), ""},
		{"another r", inRestore, restoring("r *Result", "r.times.all = 1"), ""},
		{"a part's field in a test", "pkg/restore/x_test.go", restoring("r *run", "r.target.bound = true"), ""},
		{"a part's field elsewhere", "pkg/x/x.go", restoring("r *run", "r.target.bound = true"), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expect(t, c.want, arch.Style(arch.Source{Path: c.path, Text: []byte(c.text)}))
		})
	}
}

const inRestore = "pkg/restore/x.go"

// restoring is a file with a method of these statements.
func restoring(receiver, statements string) string {
	return "package restore\n\nfunc (" + receiver + ") f() { " + statements + " }\n"
}

// table is a test file with a function of these statements.
func table(statements string) string {
	return "package x\nimport \"github.com/stretchr/testify/require\"\nfunc f() {\n" + statements + "\n}\n"
}

// polls is a test file that polls an expression.
func polls(pkg, function, expression string) string {
	return "package x\nimport \"github.com/stretchr/testify/" + pkg + "\"\nfunc f() { " + pkg + "." + function +
		"(t, func() bool { return " + expression + " }, 1, 1) }\n"
}

func TestDocumented_Samples(t *testing.T) {
	t.Parallel()
	sources := []arch.Source{
		{Path: "pkg/a/a.go", Text: []byte("package a\n")},
		{Path: "pkg/a/doc.go", Text: []byte("// Package a is.\npackage a\n")},
		{Path: "pkg/b/b.go", Text: []byte("// Copyright\n\npackage b\n")},
		{Path: "pkg/c/c_test.go", Text: []byte("package c\n")},
		{Path: "pkg/d/d.go", Text: []byte("package")},
	}
	got := arch.Documented(sources)
	expect(t, "no comment", got)
	if assert.Len(t, got, 1) {
		assert.Equal(t, "pkg/b", got[0].Where)
	}
}

func expect(t *testing.T, want string, got []arch.Violation) {
	t.Helper()
	if want == "" {
		assert.Empty(t, got)
		return
	}
	if assert.Len(t, got, 1) {
		assert.Contains(t, got[0].String(), want)
	}
}
