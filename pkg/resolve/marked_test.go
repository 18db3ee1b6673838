package resolve_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// makeMarked loads a cluster, lets transfers run among few of its accounts, marks it, and cuts it under a hold. before runs
// beside the transfers, before the marks; what it returns runs after the cut.
func makeMarked(t *testing.T, stores int, before func(l *lab, w *workload.Workload) (after func())) *marked {
	t.Helper()
	l := newLab(t, 1)
	for i := range stores {
		l.devices = append(l.devices, [2]*disk.Device{disk.New(1 << 30), disk.New(1 << 30)})
		l.start(t, i)
	}
	require.NoError(t, tikvBootstrap(within(t), l))
	w, err := workload.New(workload.Config{PD: l.pd.URLs(), Accounts: 500, Hot: 40, Clients: 3, Regions: 20, Kinds: true})
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	empty, err := l.oracle.Now(within(t))
	require.NoError(t, err)
	require.NoError(t, w.Load(within(t)))
	ctx, stop := context.WithCancel(within(t))
	defer stop()
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	require.Eventually(t, func() bool {
		c := w.Counters()
		return c.Commits > 100 && c.Pessimistic > 3 && c.Large > 3 && c.Pipelined > 3
	}, patience, 5e6, "no transaction of some kind was committed")
	require.Eventually(t, func() bool { return l.batches() > 3 }, patience, 5e6, "no large transaction has come to a region in several batches")
	m := &marked{original: &original{history: w.History()}, empty: empty}
	after := before(l, w)
	ts := l.mark(t, m)
	require.Eventually(t, func() bool {
		resolved, err := l.oracle.ResolvedTS(within(t))
		return err == nil && resolved.TS >= marks.After(ts)
	}, patience, 2e7)
	l.cut(t, w, m.original)
	after()
	require.GreaterOrEqual(t, m.ts, marks.After(ts))
	stop()
	running.Wait()
	require.NoError(t, w.Settle(within(t)))
	for _, s := range l.stores {
		s.Kill()
	}
	return m
}

// disturbed is a cluster whose regions were split and led by one store after the other, one of whose stores was killed and
// started again, and some of whose accounts at rest are locked by a client that waits, and by two pipelined transactions: one
// commits when the first store is cut, and one when all are.
func disturbed(t *testing.T) *marked {
	t.Helper()
	var pipelined cluster.TS
	m := makeMarked(t, 3, func(l *lab, w *workload.Workload) func() {
		churning, end := context.WithCancel(within(t))
		var churn sync.WaitGroup
		churn.Go(func() {
			if err := w.Churn(churning); err != nil {
				t.Errorf("churn: %v", err)
			}
		})
		require.Eventually(t, func() bool { c := w.Counters(); return c.Moves > 1 }, patience, 5*time.Millisecond)
		l.bounce(t, 1)
		next := w.Counters().Commits + 50
		require.Eventually(t, func() bool { return w.Counters().Commits > next }, patience, 5*time.Millisecond)
		end()
		churn.Wait()
		release := lockAtRest(t, l, w)
		first := int(w.Counters().Commits / 400 * 20)
		over, err := w.OpenPipelined(within(t), (first+275)%500, (first+360)%500, (first+440)%500)
		require.NoError(t, err)
		amid, err := w.OpenPipelined(within(t), (first+300)%500, (first+385)%500, (first+465)%500)
		require.NoError(t, err)
		l.amidCuts = func() { require.NoError(t, amid.Commit(within(t))) }
		return func() {
			require.NoError(t, over.Commit(within(t)))
			pipelined = over.StartTS
			release()
		}
	})
	m.pipelined = pipelined
	return m
}

// lockAtRest locks three accounts that transfers do not come to for long: each that does would wait for the lock.
func lockAtRest(t *testing.T, l *lab, w *workload.Workload) (release func()) {
	t.Helper()
	held, err := workload.Connect(within(t), l.pd.URLs())
	require.NoError(t, err)
	first := int(w.Counters().Commits / 400 * 20) // transfers move on by 20 accounts after 400 commits
	unlock, err := held.LockAccounts(within(t), (first+250)%500, (first+330)%500, (first+410)%500)
	require.NoError(t, err)
	return func() {
		require.NoError(t, unlock())
		require.NoError(t, held.Close())
	}
}

// batches counts the prewrites that came to a region after another batch of the same transaction.
func (l *lab) batches() int64 {
	n := int64(0)
	for _, s := range l.stores {
		n += s.Batches()
	}
	return n
}

// locked counts the regions with a lock.
func (l *lab) locked(t *testing.T) int {
	t.Helper()
	regions, err := l.oracle.Regions(within(t), cluster.KeyRange{})
	require.NoError(t, err)
	n := 0
	for _, r := range regions {
		for _, s := range l.stores {
			if uint64(r.Leader.Store) != s.ID() {
				continue
			}
			locked, err := l.client.AnyLock(within(t), s.Addr(), r)
			require.NoError(t, err)
			if locked {
				n++
			}
		}
	}
	return n
}

// lockedBy counts the keys that the transaction has locked.
func (l *lab) lockedBy(t *testing.T, start cluster.TS) int {
	t.Helper()
	conn, err := workload.Connect(within(t), l.pd.URLs())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	locks, err := conn.LocksLeft(within(t))
	require.NoError(t, err)
	n := 0
	for _, lock := range locks {
		if lock.StartTS == start {
			n++
		}
	}
	return n
}

// TestMarks_DisturbedCluster_FlashbackChangesNothingAndNoLockStays has, on stores with real raft, what random histories of
// the planner's model have: restarts, moves, splits, lags, pessimistic locks and pipelined transactions that stay open.
func TestMarks_DisturbedCluster_FlashbackChangesNothingAndNoLockStays(t *testing.T) {
	t.Parallel()
	m := disturbed(t)
	m.proveRestores(t)
}

// proveRestores restores with the marks: no lock stays, and a flashback of what they leave alone changes nothing.
func (m *marked) proveRestores(t *testing.T) {
	t.Helper()
	t.Run("no lock stays", func(t *testing.T) {
		t.Parallel()
		l := restoreLab(t, m.original, 1)
		cfg := l.config(m.original, "run")
		cfg.Marks = m.set()
		locks, pipelined := 0, 0
		r, err := l.run(t, cfg, map[string]func(){"prepare": func() { locks, pipelined = l.locked(t), l.lockedBy(t, m.pipelined) }})
		require.NoError(t, err)
		if m.pipelined > 0 {
			require.Equal(t, 3, pipelined, "the locks of the pipelined transaction that was open over all cuts are in the copies")
		}
		require.GreaterOrEqual(t, locks, 3, "the accounts' locks are in the copies")
		require.Zero(t, l.locked(t))
		require.Positive(t, r.Stats().Unchanged)
		require.GreaterOrEqual(t, r.Stats().Flashed, 3)
		l.verify(t, m.original)
	})
	t.Run("a flashback of all changes nothing", func(t *testing.T) {
		t.Parallel()
		l := restoreLab(t, m.original, 1)
		cfg := l.config(m.original, "run")
		cfg.Marks, cfg.CheckUnchanged = m.set(), math.MaxInt
		r, err := l.run(t, cfg, nil)
		require.NoError(t, err)
		require.Positive(t, r.Stats().Checked)
		require.Equal(t, r.Stats().Unchanged, r.Stats().Checked)
		l.verify(t, m.original)
	})
}
