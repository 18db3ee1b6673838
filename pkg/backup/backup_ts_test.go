package backup_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// backwardPD is a PD whose resolved ts goes back by a minute at some calls, as after a change of its leader.
type backwardPD struct {
	backup.PD

	back func(call int) bool

	mu    sync.Mutex
	calls int
	first cluster.TS // of the calls that did not go back, the highest
}

func (p *backwardPD) ResolvedTS(ctx context.Context) (pd.ResolvedTS, error) {
	got, err := p.PD.ResolvedTS(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if p.back(p.calls) {
		got.TS = cluster.MakeTS(got.TS.Time().Add(-time.Minute), 0)
		return got, err
	}
	p.first = max(p.first, got.TS)
	return got, err
}

// A resolved ts below one that the run has read before does not become the backup ts, and the run reports it.
func TestRun_ResolvedTSGoesBack_IsNeverTheBackupTS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// The first call is preflight's, the second that of GC; the third and fourth are for the backup ts.
	p := &backwardPD{PD: r.deps.PD, back: func(call int) bool { return call == 3 || call == 4 }}
	r.deps.PD = p
	o := r.options()
	o.MaxLag = 10 * time.Minute
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, p.calls, 5)
	require.Equal(t, p.first, result.Manifest.BackupTS)
	r.requireSealed(t, o)
	require.Contains(t, strings.Join(r.events.texts(), "\n"), "went back from")
}

func TestRun_ResolvedTSStaysBack_IsNotSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deps.PD = &backwardPD{PD: r.deps.PD, back: func(call int) bool { return call > 1 }}
	o := r.options()
	o.MaxLag = 10 * time.Minute
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "PD went back")
	r.requireUndone(t, o)
}

// lockedTiKV is a cluster with a lock that the resolved ts does not know, where locked returns one.
type lockedTiKV struct {
	backup.TiKV

	// locked reports whether there is one at or below ts; first is the first ts asked for.
	locked func(ts, first cluster.TS) bool

	mu    sync.Mutex
	first cluster.TS
}

func (s *lockedTiKV) FirstLock(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (cluster.TS, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == 0 {
		s.first = ts
	}
	if s.locked(ts, s.first) {
		return ts - 1, nil
	}
	return s.TiKV.FirstLock(ctx, address, r, ts)
}

var _ tikv.Holder = (*lockedTiKV)(nil)

// The stores of the testbed have just been started, so that their resolved ts proves nothing by itself.
func TestRun_LockBelowTheResolvedTS_WaitsForANewerOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stores := &lockedTiKV{TiKV: r.deps.TiKV, locked: func(ts, first cluster.TS) bool { return ts == first }}
	r.deps.TiKV = stores
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Greater(t, result.Manifest.BackupTS, stores.first, "another ts is read")
	r.requireSealed(t, o)
}

func TestRun_LockThatStays_IsNotSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.deps.TiKV = &lockedTiKV{TiKV: r.deps.TiKV, locked: func(_, _ cluster.TS) bool { return true }}
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "a transaction that began at")
	r.requireUndone(t, o)
}
