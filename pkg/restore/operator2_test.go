package restore_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/restore"
)

// A backup of a cluster of TiDB Operator 2.x has no TidbCluster to make a target from.
func TestBackupOfOperator2_IsRefusedByAllThatRestores_NothingIsMade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m, err := catalog.Catalog{Store: l.store}.Load(t.Context(), "b")
	require.NoError(t, err)
	m.Kubernetes.TidbCluster = nil
	m.Kubernetes.Objects = []json.RawMessage{[]byte(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"Cluster"}`)}
	for name, try := range map[string]func(context.Context, restore.Deps, restore.Options) error{
		"restore":           errorOf(restore.Run),
		"restore --dry-run": errorOf(restore.MakePlan),
		"resolve":           errorOf(restore.Resolve),
		"resolve --dry-run": errorOf(restore.PlanResolve),
		"br's volumes":      errorOf(restore.Prepare),
		"br's data":         errorOf(restore.ResolveData),
	} {
		t.Run(name, func(t *testing.T) {
			deps, opts := l.next(t, nil)
			opts.Manifest = m
			err := try(within(t), deps, opts)
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "its cluster is of TiDB Operator 2.x")
			require.Contains(t, failure.HintOf(err), "a later version")
			l.nothingLeft(t)
		})
	}
}

func errorOf[T any](run func(context.Context, restore.Deps, restore.Options) (T, error)) func(
	context.Context, restore.Deps, restore.Options) error {
	return func(ctx context.Context, deps restore.Deps, opts restore.Options) error {
		_, err := run(ctx, deps, opts)
		return err
	}
}
