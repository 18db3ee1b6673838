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

// A backup of a TidbCluster becomes a Cluster of TiDB Operator 2.x, with a patch for one of its groups. What is not carried
// over is listed before anything is made.
func TestRestore_OfOperator1_Into2(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	e := p.run(t, "backup", prod.String(), "--name", "b", "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	patch := filepath.Join(t.TempDir(), "patch.yaml")
	require.NoError(t, os.WriteFile(patch, []byte("kind: TiDBGroup\nmetadata: {name: copy-tidb}\nspec: {replicas: 2}\n"), 0o600))
	restore := []string{"restore", "b", "--to", "tidb/copy", "--storage", whole, "--operator", "2", "--patch", patch}

	planned := p.refused(t, append(restore, "--dry-run")...)
	require.Equal(t, cli.ExitDone, planned.code, planned.stderr)
	require.Contains(t, planned.stderr, "not carried over into TiDB Operator 2.x")
	require.Contains(t, planned.stderr, "spec.timezone")
	e = p.run(t, restore...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Nil(t, p.bed.Kube.Get("tidbclusters", "tidb", "copy"))
	require.NotNil(t, p.bed.Kube.Get("clusters", "tidb", "copy"))
	group := p.bed.Kube.Get("tidbgroups", "tidb", "copy-tidb")
	require.NotNil(t, group)
	replicas, _, _ := unstructured.NestedInt64(group.Object, "spec", "replicas")
	require.EqualValues(t, 2, replicas)
}
