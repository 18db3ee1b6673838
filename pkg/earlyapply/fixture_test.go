package earlyapply_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is stores as far as this package asks them.
type fleet struct {
	mu       sync.Mutex
	limits   map[string]uint64 // by status address; without one the store does not have the setting
	refuses  map[string]error  // what reading the setting, and asking for the gauge, ends with
	sets     map[string]error  // what setting it ends with, after it was set
	deaf     map[string]bool   // the store accepts and changes nothing
	early    map[string][]int  // the gauge's values, one call after the other; the last one stays
	woken    []cluster.RegionID
	wakes    func(cluster.RegionID)
	states   map[string]map[cluster.RegionID]tikv.RaftState // by address
	unsteady map[cluster.RegionID]int                       // how many answers of a region show it ahead
}

func (f *fleet) EarlyApply(_ context.Context, address string) (tikv.EarlyApply, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses[address]; err != nil {
		return tikv.EarlyApply{}, err
	}
	limit, known := f.limits[address]
	return tikv.EarlyApply{Known: known, Limit: limit}, nil
}

func (f *fleet) SetEarlyApply(_ context.Context, address string, limit uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.deaf[address] {
		f.limits[address] = limit
	}
	return f.sets[address]
}

func (f *fleet) EarlyAppliers(_ context.Context, address string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuses[address]; err != nil {
		return 0, err
	}
	readings := f.early[address]
	if len(readings) == 0 {
		return 0, nil
	}
	if len(readings) > 1 {
		f.early[address] = readings[1:]
	}
	return readings[0], nil
}

func (f *fleet) FirstLock(_ context.Context, _ string, r cluster.Region, _ cluster.TS) (cluster.TS, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.woken = append(f.woken, r.ID)
	if f.wakes != nil {
		f.wakes(r.ID)
	}
	return 0, nil
}

func (f *fleet) RaftState(_ context.Context, address string, region cluster.RegionID) (tikv.RaftState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, ok := f.states[address][region]
	if !ok {
		return state, failure.New(failure.NotFound, "read raft state", region.String(), "no such peer")
	}
	if f.unsteady[region] > 0 {
		f.unsteady[region]--
		state.Applied = state.Last + 1
	}
	return state, nil
}

// three are three stores at a, b and c, with their status ports at A, B and C.
func three() []earlyapply.Store {
	at := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC)
	return []earlyapply.Store{
		{ID: 1, Address: "a", StatusAddress: "A", StartedAt: at}, {ID: 2, Address: "b", StatusAddress: "B", StartedAt: at},
		{ID: 3, Address: "c", StatusAddress: "C", StartedAt: at},
	}
}

func refused() error { return failure.New(failure.Denied, "read", "store", "common name not allowed") }
