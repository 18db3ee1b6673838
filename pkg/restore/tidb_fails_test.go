package restore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// refusedTiDB refuses to show the cluster while TiDB is waited for, and shows no region to the wait for leaders before
// the wait for TiDB has failed.
type refusedTiDB struct {
	kube.Restorer
	restore.PD

	mu      sync.Mutex
	began   map[string]bool
	refused chan struct{}
}

// Emit notes which steps began, and that the wait for TiDB failed.
func (f *refusedTiDB) Emit(e phase.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case e.Type == phase.StepStarted:
		f.began[e.Step] = true
	case e.Type == phase.StepFailed && e.Step == "await-tidb":
		close(f.refused)
	}
}

func (f *refusedTiDB) begun(step string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.began[step]
}

func (f *refusedTiDB) Cluster(ctx context.Context, name cluster.Name) (kube.TidbCluster, error) {
	if f.begun("await-tidb") {
		return kube.TidbCluster{}, failure.New(failure.Denied, "get TidbCluster", name.String(), "the role was taken away")
	}
	return f.Restorer.Cluster(ctx, name)
}

func (f *refusedTiDB) Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	if f.begun(journal.StepAwaitLeaders) {
		select {
		case <-f.refused:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return f.PD.Regions(ctx, keys)
}

// A TiDB that does not come is no reason to delete the data of hours while raft elects its leaders.
func TestRun_TiDBFailsBeforeTheLeadersAreThere_TheClusterIsKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	f := &refusedTiDB{began: map[string]bool{}, refused: make(chan struct{})}
	deps, opts := l.next(t, f)
	f.Restorer, deps.Kube = deps.Kube, f
	open := deps.OpenPD
	deps.OpenPD = func(ctx context.Context, addresses []string) (restore.PD, error) {
		var err error
		f.PD, err = open(ctx, addresses)
		return f, err
	}
	result, err := restore.Run(within(t), deps, opts)
	require.ErrorContains(t, err, "the role was taken away")
	require.Equal(t, failure.Partial, failure.KindOf(err))
	require.True(t, result.Restored)
	require.Len(t, l.volumes(), 6)
	require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
	result, err = l.resolve(within(t), t)
	require.NoError(t, err, "the command that was named finishes it")
	require.True(t, result.Restored)
}
