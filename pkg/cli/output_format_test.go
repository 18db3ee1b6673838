package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

func twoBackups() *listDoc {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	return &listDoc{header: newHeader("BackupList"), now: now, Items: []listItem{
		{Entry: catalog.Entry{ID: "a", Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, State: catalog.StateSealed, BackupTS: 468000000000000001, DataBytes: 1<<53 + 1, Run: "r1", Tags: []string{"release-1"}, CoveredBy: []string{"pitr", "usual"}, CreatedAt: now}},
		{Entry: catalog.Entry{ID: "b", Cluster: cluster.Name{Namespace: "dev", Name: "prod"}, State: catalog.StateSealed, BackupTS: 2, Run: "r2", CreatedAt: now}},
	}}
}

func TestWrite_KubectlsFormats(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]string{
		"name":                                 "backup/a\nbackup/b\n",
		"jsonpath={.items[*].id}":              "a b",
		"jsonpath=items[0].backupTS":           "468000000000000001",
		"jsonpath={.items[0].dataBytes}":       "9007199254740993",
		"jsonpath={.none}":                     "",
		`jsonpath={.items[?(@.run=="r2")].id}`: "b",
	} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, checkOutput(&cobra.Command{}, output))
			var b bytes.Buffer
			require.NoError(t, write(&b, output, twoBackups(), view{}))
			require.Equal(t, want, b.String())
		})
	}
	var wideOut, table bytes.Buffer
	require.NoError(t, write(&wideOut, "wide", twoBackups(), view{wide: true}))
	require.Contains(t, wideOut.String(), "release-1")
	require.Contains(t, wideOut.String(), "pitr,usual")
	require.NoError(t, write(&table, "table", twoBackups(), view{}))
	require.NotContains(t, table.String(), "release-1")
	require.ErrorContains(t, write(&table, "name", &versionDoc{}, view{wide: "name" == "wide"}), "no named objects")
	for _, bad := range []string{"xml", "jsonpath", "jsonpath={.a", "go-template={{.kind}}", "custom=x", ""} {
		require.Error(t, checkOutput(&cobra.Command{}, bad), bad)
	}
}

func TestListFilter_NamespacesAndLabels(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args []string
		want []string
	}{
		"everything":     {nil, []string{"a", "b"}},
		"namespace":      {[]string{"-n", "dev"}, []string{"b"}},
		"all namespaces": {[]string{"-n", "dev", "-A"}, []string{"a", "b"}},
		"tag":            {[]string{"-l", "release-1"}, []string{"a"}},
		"not the tag":    {[]string{"-l", "!release-1,cluster=prod"}, []string{"b"}},
		"state":          {[]string{"-l", "state in (sealed),namespace!=dev"}, []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f listFilter
			cmd := &cobra.Command{}
			namespace := cmd.Flags().StringP("namespace", "n", "", "")
			f.add(cmd, "")
			require.NoError(t, cmd.ParseFlags(row.args))
			match, err := f.matcher(cmd, *namespace)
			require.NoError(t, err)
			var got []string
			for _, e := range twoBackups().Items {
				set := tagLabels(e.Tags)
				set["state"] = string(e.State)
				if match(e.Cluster, set) {
					got = append(got, string(e.ID))
				}
			}
			require.Equal(t, row.want, got)
		})
	}
	f := listFilter{selector: "a in"}
	_, err := f.matcher(&cobra.Command{}, "")
	require.Equal(t, failure.Usage, failure.KindOf(err))
	require.Equal(t, map[string]string{"k": "v", "alone": ""}, tagLabels([]string{"k=v", "alone"}))
}

func TestRoot_StartedAsPluginOfKubectl_CallsItselfSo(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{"kubectl-tisnap": "kubectl tisnap [command]", "tisnap": "  tisnap [command]"} {
		var out bytes.Buffer
		require.Equal(t, ExitDone, Run(t.Context(), []string{"--help"}, Streams{Out: &out, Err: &out, Program: program}, Version{}))
		require.Contains(t, out.String(), want)
	}
}

// kubectl completes its plugin by a program of its own.
func TestRoot_StartedAsKubectlsCompletion_Completes(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	streams := Streams{Out: &out, Err: &stderr, Program: "kubectl_complete-tisnap"}
	require.Equal(t, ExitDone, Run(t.Context(), []string{"backup", "--early-apply", "re"}, streams, Version{}))
	require.Contains(t, out.String(), "require\n")
}

// What a command cannot print is refused before it reads the storage, which does not exist here.
func TestOutput_RefusedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ line, want string }{
		{"logs r1 -o yaml", `--output "yaml": want table, json`},
		{"logs r1 -o jsonpath={.a}", `--output "jsonpath={.a}": want table, json`},
		{"report -o yaml --format html", "--output yaml and --format html are mutually exclusive"},
		{"report b -o name", `--output "name": want table, wide, json, yaml, jsonpath=TEMPLATE`},
		{"estimate backup a/b -o name", `--output "name"`},
		{"version -o name", `--output "name"`},
		{"list -o jsonpath={", "--output jsonpath={"},
		{"exporter -o xml", `--output "xml": want table, wide, name, json, yaml, jsonpath=TEMPLATE`},
	} {
		t.Run(row.line, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := run(t, append(strings.Fields(row.line), "--storage", "file:///nowhere")...)
			require.Equal(t, ExitCode(2), code, stderr)
			require.Empty(t, out)
			require.Contains(t, strings.ReplaceAll(stderr, `\"`, `"`), row.want)
		})
	}
}
