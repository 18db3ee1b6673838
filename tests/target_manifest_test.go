package tests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// A cluster is restored with a patch, its manifest is printed, and that makes a second one; what could not open the data
// is refused before anything is made.
func TestRestore_FromAManifestOrWithAPatch(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 9})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	e := p.run(t, "backup", prod.String(), "--name", "b", "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	restore := func(to string, more ...string) []string {
		return append([]string{"restore", "b", "--to", to, "--storage", whole}, more...)
	}
	patch := file("patch.yaml", "metadata: {labels: {team: storage}}\nspec: {tidb: {replicas: 2}}\n")

	wrong := p.refused(t, restore("tidb/one", "--patch", file("wrong.json", `[{"op": "replace", "path": "/spec/version", "value": "v7.1.0"}]`))...)
	require.EqualValues(t, 2, wrong.code, wrong.stderr)
	require.Contains(t, wrong.stderr, `TiKV's version is "7.1.0"`)
	none := p.refused(t, restore("tidb/one", "--patch", filepath.Join(t.TempDir(), "none.yaml"))...)
	require.EqualValues(t, 2, none.code, none.stderr)
	printed := p.refused(t, restore("tidb/two", "--patch", patch, "--print-manifest")...)
	require.Equal(t, cli.ExitDone, printed.code, printed.stderr)
	require.Contains(t, printed.stdout, "kind: TidbCluster")

	for to, more := range map[string][]string{"one": {"--patch", patch}, "two": {"--from-manifest", file("two.yaml", printed.stdout)}} {
		t.Run(to, func(t *testing.T) {
			e := p.run(t, restore("tidb/"+to, more...)...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			tc := p.bed.Kube.Get("tidbclusters", "tidb", to)
			require.Equal(t, "storage", tc.GetLabels()["team"])
			replicas, _, _ := unstructured.NestedInt64(tc.Object, "spec", "tidb", "replicas")
			require.EqualValues(t, 2, replicas)
		})
	}
	there := p.refused(t, restore("tidb/one", "--patch", patch, "--dry-run")...)
	require.EqualValues(t, 6, there.code, there.stderr)
}
