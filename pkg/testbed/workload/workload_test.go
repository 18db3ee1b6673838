package workload_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// runUntil runs the workload until it has so many commits.
func runUntil(t *testing.T, w *workload.Workload, commits int64, also ...func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(within(t, 60*time.Second))
	defer stop()
	var running sync.WaitGroup
	for _, f := range append(also, w.Run) {
		running.Go(func() {
			if err := f(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
		})
	}
	want := w.Counters().Commits + commits
	require.Eventually(t, func() bool { return w.Counters().Commits >= want }, 60*time.Second, 5*time.Millisecond)
	stop()
	running.Wait()
}

func TestRun_TransfersUnderChurn_MatchHistoryAtAnyTS(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := start(t, c, workload.Config{Accounts: 3000, Clients: 8, Regions: 4, Interval: 10 * time.Millisecond})
	conn, err := w.Cluster(t.Context())
	require.NoError(t, err)
	ctx := within(t, 60*time.Second)
	before, err := conn.Now(ctx)
	require.NoError(t, err)
	runUntil(t, w, 300, w.Churn)
	middle, err := conn.Now(ctx)
	require.NoError(t, err)
	runUntil(t, w, 300, w.Churn)
	after, err := conn.Now(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(3000*1000), w.History().Total())
	for _, at := range []cluster.TS{before, middle, after} {
		r, err := w.Verify(ctx, at)
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.Rows, 3000)
	}
	count := w.Counters()
	require.Positive(t, count.Splits)
	require.Positive(t, count.Moves)
}

func TestRun_LostCommitAnswers_AreSettled(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := start(t, c, workload.Config{Accounts: 500, Clients: 4, Grace: 100 * time.Millisecond})
	runUntil(t, w, 50)
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.KvCommit", Position: fault.After, Times: -1}))
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	require.NoError(t, w.Run(ctx))
	c.faults.Clear()
	require.Positive(t, w.Counters().Undetermined)

	ctx = within(t, 60*time.Second)
	conn, err := w.Cluster(ctx)
	require.NoError(t, err)
	now, err := conn.Now(ctx)
	require.NoError(t, err)
	rows, err := conn.CopyAt(ctx, now)
	require.NoError(t, err)
	r := w.History().Check(rows, now)
	require.NoError(t, r.Err(), "both outcomes are allowed")
	require.Positive(t, r.Undetermined)
	r, err = w.Verify(ctx, now)
	require.NoError(t, err)
	require.Zero(t, r.Undetermined, "the cluster itself was asked")
	runUntil(t, w, 50)
	now, err = conn.Now(ctx)
	require.NoError(t, err)
	_, err = w.Verify(ctx, now)
	require.NoError(t, err)
}

func TestRun_ClusterGoesAway_EndsWithContext(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := start(t, c, workload.Config{Accounts: 500, Clients: 4, Grace: 50 * time.Millisecond})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	require.Eventually(t, func() bool { return w.Counters().Commits > 50 }, 30*time.Second, 5*time.Millisecond)
	for _, s := range c.stores {
		s.Kill()
	}
	c.pd.Kill()
	stop()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "Run did not end")
	}
}

func TestVerify_WrongTotalAndRow_IsFound(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := start(t, c, workload.Config{Accounts: 100, Clients: 2})
	runUntil(t, w, 50)
	ctx := within(t, 30*time.Second)
	conn, err := w.Cluster(ctx)
	require.NoError(t, err)
	now, err := conn.Now(ctx)
	require.NoError(t, err)
	rows, err := conn.CopyAt(ctx, now)
	require.NoError(t, err)
	require.NoError(t, w.History().Check(rows, now).Err())
	for key, row := range rows.Rows {
		row.Balance++
		rows.Rows[key] = row
		break
	}
	r := w.History().Check(rows, now)
	require.Equal(t, 1, r.Wrong)
	require.Error(t, r.Err())
	locks, err := conn.LocksLeft(ctx)
	require.NoError(t, err)
	require.Empty(t, locks)
}

// Accounts 50 and 51 are in one region, and 75 is the first key of another.
func TestPipelined_LastKeyIsARegionsFirst_ItsLockIsResolved(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	w := start(t, c, workload.Config{Accounts: 100, Clients: 1, Regions: 4})
	ctx := within(t, 60*time.Second)
	p, err := w.OpenPipelined(ctx, 50, 51, 75)
	require.NoError(t, err)
	require.NoError(t, p.Commit(ctx))
	conn, err := w.Cluster(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		locks, err := conn.LocksLeft(ctx)
		return err == nil && len(locks) == 0
	}, 30*time.Second, 5*time.Millisecond)
}
