package resolve //nolint:testpackage // the sweep is not exported

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

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// pacePD knows the regions' leaders and nothing else.
type pacePD struct {
	PD
	regions []cluster.Region
}

func (p pacePD) Regions(_ context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	if len(keys.Start) == 0 && len(keys.End) == 0 {
		return p.regions, nil
	}
	var out []cluster.Region
	for _, r := range p.regions {
		if (len(keys.End) == 0 || string(r.Start) < string(keys.End)) && (len(r.End) == 0 || string(r.End) > string(keys.Start)) {
			out = append(out, r)
		}
	}
	return out, nil
}

func (p pacePD) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) { return nil, 0, nil }

func (p pacePD) Stores(context.Context) ([]pd.Store, error) { return nil, nil }

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

// paceTiKV is the stores by address.
type paceTiKV struct {
	TiKV
	stores map[string]*paceStore
}

func (p paceTiKV) PrepareFlashback(ctx context.Context, address string, _ tikv.Flashback) error {
	s := p.stores[address]
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

// paceLab is a resolver before its prepare, with stores of which the i-th leads each region i modulo their number.
func paceLab(regions, stores, slots int, cost func(store int) time.Duration) (*Resolver, []*paceStore) {
	t := paceTiKV{stores: map[string]*paceStore{}}
	r := New(t, nil)
	plan, addresses := &Plan{}, map[cluster.StoreID]string{}
	var list []*paceStore
	cfg := Config{Cluster: cluster.Name{Namespace: "a", Name: "b"}, Run: "run", BackupTS: 10}
	for i := range stores {
		id := cluster.StoreID(i + 1)
		s := &paceStore{slots: make(chan struct{}, slots), cost: cost(i)}
		list = append(list, s)
		addresses[id] = id.String()
		t.stores[id.String()] = s
		cfg.Stores = append(cfg.Stores, id)
	}
	bound := func(i int) []byte {
		if i == 0 || i == regions {
			return nil
		}
		return codec.EncodeBytes(nil, fmt.Appendf(nil, "%08d", i))
	}
	p := pacePD{}
	for i := range regions {
		id, store := cluster.RegionID(i+1), cluster.StoreID(i%stores+1)
		p.regions = append(p.regions, cluster.Region{
			ID: id, Start: bound(i), End: bound(i + 1), Version: 1, Leader: cluster.Peer{ID: 1, Store: store},
		})
		plan.Leaders = append(plan.Leaders, Leader{Region: id, Store: store})
	}
	r.Target(cfg, p)
	r.plan, r.addresses, r.stamps = plan, addresses, Stamps{Start: 20, Commit: 21}
	return r, list
}

// prepareAll runs the step and returns how long it took.
func prepareAll(ctx context.Context, r *Resolver) (time.Duration, error) {
	begin := time.Now()
	step := phase.Step{Phase: "p", Name: "prepare", Deadline: deadline, Do: r.prepare}
	err := phase.New(phase.Config{Run: "run", Journal: phase.NoJournal{}}).Run(ctx, []phase.Step{step})
	return time.Since(begin), err
}

const paceCost = 5 * time.Millisecond

func evenly(int) time.Duration { return paceCost }

// The tests of pace run on a clock that stands while anything works, so that what they measure is waiting alone.

func TestSweep_StoresWithSlots_IsNearTheirFloor(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 4, 32} {
		synctest.Test(t, func(t *testing.T) {
			const regions, stores = 20_000, 10
			r, _ := paceLab(regions, stores, slots, evenly)
			took, err := prepareAll(t.Context(), r)
			require.NoError(t, err)
			floor := regions / stores * paceCost / time.Duration(slots)
			require.LessOrEqual(t, took, floor*5/4+2*sweepTick, "%d slots", slots)
		})
	}
}

func TestSweep_OneSlowStore_HoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const regions, stores, slots = 10_000, 10, 4
		r, list := paceLab(regions, stores, slots, func(store int) time.Duration {
			if store == 0 {
				return 10 * paceCost
			}
			return paceCost
		})
		begin := time.Now()
		took, err := prepareAll(t.Context(), r)
		require.NoError(t, err)
		floor := regions / stores * paceCost / slots
		for _, s := range list[1:] {
			require.LessOrEqual(t, s.finished.Sub(begin), floor*5/4+2*sweepTick)
		}
		require.LessOrEqual(t, took, 10*floor*5/4+2*sweepTick)
	})
}

func TestSweep_StoreAwayForAWhile_CostsItsOwnRegionsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const regions, stores, slots = 10_000, 10, 4
		const away = 10 * time.Second
		r, list := paceLab(regions, stores, slots, evenly)
		floor := regions / stores * paceCost / slots
		begin := time.Now()
		time.AfterFunc(floor/2, func() { list[0].setDown(true) })
		time.AfterFunc(floor/2+away, func() { list[0].setDown(false) })
		took, err := prepareAll(t.Context(), r)
		require.NoError(t, err)
		calls := 0
		for _, s := range list {
			calls += s.calls
		}
		require.Equal(t, regions, calls, "nothing that was done is done again")
		for _, s := range list[1:] {
			require.LessOrEqual(t, s.finished.Sub(begin), floor*5/4+2*sweepTick)
		}
		require.LessOrEqual(t, took, away+mostRest+2*floor)
		require.Less(t, r.stats.Retries, int64(100), "a store that is away is asked by one call now and then")
	})
}

// A sweep that does not end within its time says what it had the time for, and what is not done.
func TestSweep_TimeIsUp_SaysForWhatItWas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, list := paceLab(40, 2, 1, evenly)
		r.cfg.Stall = 100 * time.Hour
		list[0].setDown(true)
		took, err := prepareAll(t.Context(), r)
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "20 regions are done and 20 are not")
		require.ErrorContains(t, err, "connection refused")
		require.ErrorContains(t, err, "prepare 40 regions on 2 stores within 30m10.5s")
		require.InDelta(t, (30*time.Minute + 10500*time.Millisecond).Seconds(), took.Seconds(), 1)
	})
}

func TestSweep_RegionMissingInPD_IsNotOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := paceLab(40, 2, 1, evenly)
		p, ok := r.pd.(pacePD)
		require.True(t, ok)
		r.pd = pacePD{regions: append(p.regions[:7:7], p.regions[8:]...)}
		_, err := prepareAll(t.Context(), r)
		require.ErrorContains(t, err, "39 regions are done and 0 are not, nothing changed for 5m0s: keys [")
		require.ErrorContains(t, err, "(PD lists no region)")
	})
}

func TestSweep_EmptyPD_IsNotSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, _ := paceLab(1, 1, 1, evenly)
		r.pd = pacePD{}
		_, err := prepareAll(t.Context(), r)
		require.ErrorContains(t, err, "keys [-inf, +inf) (PD lists no region)")
		require.False(t, errors.Is(err, context.Canceled))
	})
}

// BenchmarkSweep is what driving one call costs beside the call itself.
func BenchmarkSweep(b *testing.B) {
	const regions = 20_000
	b.ReportAllocs()
	for b.Loop() {
		r, _ := paceLab(regions, 20, 64, func(int) time.Duration { return 0 })
		if _, err := prepareAll(b.Context(), r); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*regions), "ns/region")
}
