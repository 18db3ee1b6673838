package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// paceRun knows the regions' leaders and nothing else.
type paceRun struct {
	regions []cluster.Region
	err     error // of PD
}

func (p *paceRun) Regions(_ context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	if p.err != nil {
		return nil, p.err
	}
	if len(keys.Start) == 0 && len(keys.End) == 0 {
		return p.regions, nil
	}
	var out []cluster.Region
	for _, r := range p.regions {
		if (len(keys.End) == 0 || string(r.Keys.Start) < string(keys.End)) && (len(r.Keys.End) == 0 || string(r.Keys.End) > string(keys.Start)) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (p *paceRun) Address(store cluster.StoreID) string { return store.String() }
func (p *paceRun) CheckHeld(context.Context) error      { return nil }
func (p *paceRun) Lost() bool                           { return false }
func (p *paceRun) Interrupted() error                   { return nil }
func (p *paceRun) AskAgain([]cluster.StoreID)           {}
func (p *paceRun) Resend(context.Context) error         { return nil }

// paceStore works on some calls at once, each for its cost; the others wait. While it is down nothing answers.
type paceStore struct {
	slots chan struct{}
	cost  time.Duration

	mu       sync.Mutex
	down     bool
	calls    int
	finished time.Time
}

var errDown = failure.New(failure.Unknown, "call", "", "connection refused")

func (s *paceStore) call(ctx context.Context) error {
	if s.isDown() {
		return errDown
	}
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	<-time.After(s.cost)
	<-s.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return errDown
	}
	s.calls++
	s.finished = time.Now()
	return nil
}

func (s *paceStore) isDown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

func (s *paceStore) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// paceLab is a sweep that has not begun, over stores of which the i-th leads each region i modulo their number.
func paceLab(regions, stores, slots int, cost func(store int) time.Duration) (*paceRun, Config, []*paceStore) {
	run, byAddress := &paceRun{}, map[string]*paceStore{}
	var list []*paceStore
	for i := range stores {
		s := &paceStore{slots: make(chan struct{}, slots), cost: cost(i)}
		list = append(list, s)
		byAddress[cluster.StoreID(i+1).String()] = s
	}
	bound := func(i int) []byte {
		if i == 0 || i == regions {
			return nil
		}
		return codec.EncodeBytes(nil, fmt.Appendf(nil, "%08d", i))
	}
	for i := range regions {
		run.regions = append(run.regions, cluster.Region{
			ID: cluster.RegionID(i + 1), Keys: cluster.KeyRange{Start: bound(i), End: bound(i + 1)}, Version: 1,
			Leader: cluster.Peer{ID: 1, Store: cluster.StoreID(i%stores + 1)},
		})
	}
	return run, Config{
		Cluster: cluster.Name{Namespace: "a", Name: "b"}, Verb: "prepare", Done: NewCoverage(), Stall: 5 * time.Minute, Log: zap.NewNop(),
		Call: func(ctx context.Context, address string, _ tikv.Flashback) error { return byAddress[address].call(ctx) },
		Save: func() func(context.Context) error { return func(context.Context) error { return nil } },
	}, list
}

// callAll runs the sweep as a step does, and returns how long it took.
func callAll(ctx context.Context, w *Sweep) (time.Duration, error) {
	begin := time.Now()
	step := phase.Step{Phase: "p", Name: "prepare", Deadline: 48 * time.Hour, Do: w.Run}
	err := phase.New(phase.Config{Run: "run", Journal: phase.NoJournal{}}).Run(ctx, []phase.Step{step})
	return time.Since(begin), err
}

const paceCost = 5 * time.Millisecond

func evenly(int) time.Duration { return paceCost }

// The tests of pace run on a clock that stands while anything works, so that what they measure is waiting alone.

func TestSweep_StoresWithSlots_IsNearTheirFloor(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 4, 32} {
		t.Run(fmt.Sprintf("%d slots", slots), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const regions, stores = 20_000, 10
				run, cfg, _ := paceLab(regions, stores, slots, evenly)
				took, err := callAll(t.Context(), New(cfg, run))
				require.NoError(t, err)
				floor := regions / stores * paceCost / time.Duration(slots)
				require.LessOrEqual(t, took, floor*5/4+2*tickInterval)
			})
		})
	}
}

func TestSweep_OneSlowStore_DoesNotDelayTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const regions, stores, slots = 10_000, 10, 4
		run, cfg, list := paceLab(regions, stores, slots, func(store int) time.Duration {
			if store == 0 {
				return 10 * paceCost
			}
			return paceCost
		})
		begin := time.Now()
		took, err := callAll(t.Context(), New(cfg, run))
		require.NoError(t, err)
		floor := regions / stores * paceCost / slots
		for _, s := range list[1:] {
			require.LessOrEqual(t, s.finished.Sub(begin), floor*5/4+2*tickInterval)
		}
		require.LessOrEqual(t, took, 10*floor*5/4+2*tickInterval)
	})
}

func TestSweep_StoreAwayForAWhile_CostsItsOwnRegionsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const regions, stores, slots = 10_000, 10, 4
		const away = 10 * time.Second
		run, cfg, list := paceLab(regions, stores, slots, evenly)
		floor := regions / stores * paceCost / slots
		begin := time.Now()
		time.AfterFunc(floor/2, func() { list[0].setDown(true) })
		time.AfterFunc(floor/2+away, func() { list[0].setDown(false) })
		w := New(cfg, run)
		took, err := callAll(t.Context(), w)
		require.NoError(t, err)
		calls := 0
		for _, s := range list {
			calls += s.calls
		}
		require.Equal(t, regions, calls, "nothing that was done is done again")
		for _, s := range list[1:] {
			require.LessOrEqual(t, s.finished.Sub(begin), floor*5/4+2*tickInterval)
		}
		require.LessOrEqual(t, took, away+maxRest+2*floor)
		require.Less(t, w.Retries(), int64(100), "a store that is away is asked by one call now and then")
	})
}

// The error of a sweep that does not end within its time names the deadline, and what is not done.
func TestSweep_TimeIsUp_ErrorNamesTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run, cfg, list := paceLab(40, 2, 1, evenly)
		cfg.Stall = 100 * time.Hour
		list[0].setDown(true)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, failure.Wrap(context.DeadlineExceeded, failure.Limited, "prepare within an hour", ""))
		defer cancel()
		took, err := callAll(ctx, New(cfg, run))
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "20 regions are done and 20 are not")
		require.ErrorContains(t, err, "connection refused")
		require.ErrorContains(t, err, "prepare within an hour")
		require.InDelta(t, time.Hour.Seconds(), took.Seconds(), 1)
	})
}

func TestSweep_RegionMissingInPD_IsNotOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run, cfg, _ := paceLab(40, 2, 1, evenly)
		run.regions = append(run.regions[:7:7], run.regions[8:]...)
		_, err := callAll(t.Context(), New(cfg, run))
		require.ErrorContains(t, err, "39 regions are done and 0 are not, nothing changed for 5m0s: keys [")
		require.ErrorContains(t, err, "(PD lists no region)")
	})
}

// That PD does not answer is another thing than that it lists no region.
func TestSweep_PDDoesNotAnswer_ErrorGivesTheReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run, cfg, _ := paceLab(40, 2, 1, evenly)
		run.err = failure.New(failure.Unready, "scan regions", "", "no leader")
		_, err := callAll(t.Context(), New(cfg, run))
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "nothing changed for 5m0s: PD's regions cannot be read (scan regions: no leader)")
	})
}

func TestSweep_EmptyPD_IsNotSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run, cfg, _ := paceLab(1, 1, 1, evenly)
		run.regions = nil
		_, err := callAll(t.Context(), New(cfg, run))
		require.ErrorContains(t, err, "keys [-inf, +inf) (PD lists no region)")
		require.False(t, errors.Is(err, context.Canceled))
	})
}

// BenchmarkSweep is what driving one call costs beside the call itself.
func BenchmarkSweep(b *testing.B) {
	const regions = 20_000
	b.ReportAllocs()
	for b.Loop() {
		run, cfg, _ := paceLab(regions, 20, 64, func(int) time.Duration { return 0 })
		if _, err := callAll(b.Context(), New(cfg, run)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*regions), "ns/region")
}
