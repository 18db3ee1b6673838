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

// TiDB Operator 2.x has no restore of volume snapshots that br could take part in; tisnap's own refuses what is not recorded.
func TestBackupOfOperator2_WithoutItsGroups_NothingIsMade(t *testing.T) { //nolint:tparallel // the parts share a testbed
	t.Parallel()
	l := newLab(t)
	m, err := catalog.Catalog{Store: l.store}.Load(t.Context(), "b")
	require.NoError(t, err)
	m.Kubernetes.TidbCluster = nil
	m.Kubernetes.Objects = []json.RawMessage{[]byte(`{"apiVersion":"core.pingcap.com/v1alpha1","kind":"Cluster"}`)}
	type attempt func(context.Context, restore.Deps, restore.Options) error
	for name, row := range map[string]struct {
		try  attempt
		kind failure.Kind
		want string
	}{
		"restore":           {errorOf(restore.Run), failure.Corrupt, "its labels name no instance"},
		"restore --dry-run": {errorOf(restore.MakePlan), failure.Corrupt, "its labels name no instance"},
		"br's volumes":      {errorOf(restore.Prepare), failure.Unready, "no restore of volume snapshots"},
		"br's data":         {errorOf(restore.ResolveData), failure.Unready, "no restore of volume snapshots"},
	} {
		t.Run(name, func(t *testing.T) {
			deps, opts := l.next(t, nil)
			opts.Manifest = m
			err := row.try(within(t), deps, opts)
			require.Equal(t, row.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
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
