package tests

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// A backup of a cluster of one generation of TiDB Operator is restored where only the other is installed: every row is right.
func TestRound_AcrossOperators_EveryRowIsRight(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		source int
		forget string // the source's API group
		warns  []string
	}{
		"1.x into 2.x": {1, "pingcap.com", []string{
			"the backup's cluster is of TiDB Operator 1.x, and is restored into 2.x: only that Operator is installed here",
			"not carried over into TiDB Operator 2.x",
		}},
		"2.x into 1.x": {2, "core.pingcap.com", []string{
			"the backup's cluster is of TiDB Operator 2.x, and is restored into 1.x: only that Operator is installed here",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
			defer cancel()
			log := &shipped.Output{}
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(log)
				}
			})
			r, err := round.Run(ctx, round.Config{
				Dir: t.TempDir(), Seed: 7, Scale: 4, Accounts: accounts, Regions: 8, Operator: way.source, Tisnap: inProcess(t, log), Warns: way.warns,
				BeforeRestore: func(bed *testbed.Testbed) { bed.Kube.ForgetGroup(way.forget) },
			})
			require.NoError(t, err)
			require.Greater(t, r.Rows, accounts, "each row was compared")
			for _, text := range way.warns {
				require.Contains(t, log.String(), text)
			}
		})
	}
}

// The user chooses the Operator, and patches what it makes. What is not carried over is listed before anything is made.
func TestRestore_IntoTheOtherOperator(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		from      int
		to, patch string
		lost      []string
		made      []string // resource and name
		replicas  []string
		not       string
	}{
		"1.x into 2.x": {
			1, "2", "kind: TiDBGroup\nmetadata: {name: copy-tidb}\nspec: {replicas: 2}\n", []string{"not carried over into TiDB Operator 2.x", "spec.timezone"},
			[]string{"tidbgroups", "copy-tidb"}, []string{"spec", "replicas"}, "tidbclusters",
		},
		"2.x into 1.x": {
			2, "1", "spec: {tidb: {replicas: 2}}\n", nil,
			[]string{"tidbclusters", "copy"}, []string{"spec", "tidb", "replicas"}, "clusters",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, testbed.Config{Nodes: 6, Operator: way.from})
			_, err := p.bed.CreateCluster(t.Context(), prod, 3)
			require.NoError(t, err)
			e := p.run(t, "backup", prod.String(), "--name", "b", "--storage", whole)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			patch := filepath.Join(t.TempDir(), "patch.yaml")
			require.NoError(t, os.WriteFile(patch, []byte(way.patch), 0o600))
			restore := []string{"restore", "b", "--to", "tidb/copy", "--storage", whole, "--operator", way.to, "--patch", patch}
			planned := p.refused(t, append(restore, "--dry-run")...)
			require.Equal(t, cli.ExitDone, planned.code, planned.stderr)
			for _, text := range way.lost {
				require.Contains(t, planned.stderr, text)
			}
			e = p.run(t, restore...)
			require.Equal(t, cli.ExitDone, e.code, e.stderr)
			for _, text := range way.lost {
				require.Contains(t, e.stderr, text)
			}
			require.Nil(t, p.bed.Kube.Get(way.not, "tidb", "copy"))
			made := p.bed.Kube.Get(way.made[0], "tidb", way.made[1])
			require.NotNil(t, made)
			replicas, _, _ := unstructured.NestedInt64(made.Object, way.replicas...)
			require.EqualValues(t, 2, replicas)
		})
	}
}
