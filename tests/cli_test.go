package tests

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/testbed"
)

var update = flag.Bool("update", false, "write the golden files again")

// variable is what differs between two runs, and what stands for it in a golden file. The order matters.
var variable = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)?`), "TIME"},
	{regexp.MustCompile(`\d{8}t\d{6}-[0-9a-f]{8}`), "RUN"},
	{regexp.MustCompile(`\b\d{18}\b`), "TS"},
	{regexp.MustCompile(`(clusterID"?): "\d+"`), `$1: "ID"`},
	{regexp.MustCompile(`\b(snap|vol|i)-[0-9a-f]{17}`), "$1-ID"},
	{regexp.MustCompile(`("dataBytes"|"dataPerVolumeBytes"|"size"): \d+`), "$1: N"},
	{regexp.MustCompile(`dataBytes: \d+`), "dataBytes: N"},
	{regexp.MustCompile(`\d+s\n`), "AGE\n"},
	{regexp.MustCompile(`go1\.[0-9.]+`), "go1.N"},
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	for _, v := range variable {
		got = v.pattern.ReplaceAllString(got, v.instead)
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestList_EachStateAndOutput lists a sealed backup, one whose run died, and one that is damaged.
func TestList_EachStateAndOutput(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)

	empty := p.refused(t, "list", "--storage", "s3://"+testbed.Bucket+"/empty")
	require.Equal(t, ending{stdout: "no backups\n"}, empty)
	noJSON := p.refused(t, "list", "--storage", "s3://"+testbed.Bucket+"/empty", "-o", "json")
	require.JSONEq(t, `{"apiVersion": "tisnap.io/v1", "kind": "BackupList", "items": []}`, noJSON.stdout)

	require.Equal(t, cli.ExitDone, p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole).code)
	store := p.storage(t, whole)
	put(t, store, manifest.ManifestKey("second"), []byte(`{"apiVersion":"tisnap.io/v1","kind":"Other"}`))

	for _, format := range []string{"table", "json", "yaml"} {
		e := p.refused(t, "list", "--storage", whole, "-o", format)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.Empty(t, e.stderr)
		golden(t, "list-"+format, e.stdout)
	}
	var asJSON, asYAML any
	require.NoError(t, json.Unmarshal([]byte(p.run(t, "list", "--storage", whole, "-o", "json").stdout), &asJSON))
	require.NoError(t, yaml.Unmarshal([]byte(p.run(t, "list", "--storage", whole, "-o", "yaml").stdout), &asYAML))
	require.Equal(t, asJSON, asYAML)

	good := p.run(t, "list", "--storage", whole, "--check")
	require.Contains(t, good.stdout, "sealed", good.stderr)
	require.NotContains(t, good.stdout, "broken")
	p.deleteSnapshot(t, p.bed.EC2.Snapshots()[0].ID)
	bad := p.run(t, "list", "--storage", whole, "--check")
	require.Equal(t, cli.ExitCode(10), bad.code, bad.stderr)
	require.Contains(t, bad.stdout, string(firstBackup)+" is broken: 1 of its snapshots are gone")

	e := p.refused(t, "describe", string(firstBackup), "--storage", whole, "-o", "json")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Equal(t, []string{
		"apiVersion", "backup", "backupTS", "cluster", "createdAt", "earlyApply", "ec2", "kind", "region", "report", "sealedAt", "snapshots", "version",
	}, keys(t, e.stdout))
	badInput{
		"damaged", []string{"describe", "second", "--storage", whole}, 5, []string{"not sealed"}, []string{"tisnap list"},
	}.check(t, p)

	// What a shell asks for behind `tisnap backup `, `tisnap backup tidb/` and `tisnap list -n `: what there is in Kubernetes.
	for asked, want := range map[string]string{"backup ": "prod\n:4\n", "backup tidb/": "tidb/prod\n:4\n", "list -n ": "tidb\n:4\n"} {
		command := strings.Split(asked, " ")
		args := append([]string{cobra.ShellCompNoDescRequestCmd, command[0], "--kubeconfig", p.bed.Kubeconfig()}, command[1:]...)
		if command[0] == "backup" {
			args = append(args[:len(args)-1], "-n", "tidb", args[len(args)-1])
		}
		var stdout, stderr bytes.Buffer
		require.Equal(t, cli.ExitDone, cli.Run(t.Context(), args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{}), stderr.String())
		require.Equal(t, want, stdout.String(), asked)
	}

	// What a shell asks for behind `tisnap restore `: sealed backups only, beside the command below it.
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), []string{
		cobra.ShellCompNoDescRequestCmd, "restore", "--storage", whole, "--endpoint-url", p.bed.AWS(), "--region", testbed.Region, "",
	}, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{})
	require.Equal(t, cli.ExitDone, code, stderr.String())
	require.Equal(t, "abort\nfirst\n:4\n", stdout.String())
}

// keys lists the fields of a JSON object, sorted.
func keys(t *testing.T, document string) []string {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(document), &fields))
	return slices.Sorted(maps.Keys(fields))
}

// TestCommands_WithoutCluster are those that contact nothing.
func TestCommands_WithoutCluster(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	golden(t, "version", p.refused(t, "version").stdout)
	golden(t, "version-json", p.refused(t, "version", "-o", "json").stdout)

	bash := p.refused(t, "completion", "bash")
	require.Equal(t, cli.ExitDone, bash.code)
	require.Contains(t, bash.stdout, "complete -o default -F __start_tisnap tisnap")

	for _, args := range [][]string{{"--help"}, {"help", "backup"}, {"backup", "--help"}, {"restore", "-h"}, {"list", "--help"}, {"describe", "--help"}, {}} {
		e := p.refused(t, args...)
		assert.Equal(t, cli.ExitDone, e.code, "%v", args)
		assert.Empty(t, e.stderr, "help is the result: %v", args)
		assert.True(t, strings.Contains(e.stdout, "Usage:"), "%v", args)
	}
}

// A dry run that the environment asks for is reported on stderr and in its result: it may be a setting left from a drill.
// The flag of the command line is above it, as in the nightly CronJob.
func TestBackup_DryRunByTheEnvironment_Warns(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	const warning = "TISNAP_DRY_RUN makes this a dry run: no backup is done"
	asked := p.run(t, "backup", prod.String(), "--storage", whole, "--dry-run")
	require.Equal(t, cli.ExitDone, asked.code, asked.stderr)
	require.NotContains(t, asked.stdout+asked.stderr, warning)
	p.env = []string{"TISNAP_DRY_RUN=true"}
	e := p.run(t, "backup", prod.String(), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Contains(t, e.stderr, warning)
	require.Contains(t, e.stdout, "nothing was changed\nwarning: "+warning)
	e = p.run(t, "backup", prod.String(), "--storage", whole, "-o", "json")
	var doc struct{ Warnings []string }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
	require.Equal(t, []string{warning}, doc.Warnings)
	for _, args := range [][]string{{"prune", "--keep-last", "1"}, {"gc"}, {"release", prod.String()}} {
		done := "TISNAP_DRY_RUN makes this a dry run: no " + args[0] + " is done"
		e = p.run(t, append(args, "--storage", whole)...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.Contains(t, e.stderr, done)
		require.Contains(t, e.stdout, "warning: "+done)
		e = p.run(t, append(args, "--storage", whole, "-o", "json")...)
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
		require.Equal(t, []string{done}, doc.Warnings)
	}
	e = p.run(t, "backup", prod.String(), "--storage", whole, "--dry-run=false")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.NotContains(t, e.stderr, "dry run")
	require.Contains(t, e.stdout, "is sealed at ts")
	e = p.run(t, "copy", "latest", "--storage", whole, "--to-storage", whole+"-copy")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Equal(t, 1, strings.Count(e.stdout, "no copy is done"), e.stdout)
}
