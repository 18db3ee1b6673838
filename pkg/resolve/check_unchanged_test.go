package resolve

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// checkedPD lists the region with exactly the keys that it is asked for.
type checkedPD struct{ PD }

func (checkedPD) Regions(_ context.Context, keys cluster.KeyRange) ([]cluster.Region, error) {
	return []cluster.Region{{ID: 7, Keys: keys, Leader: cluster.Peer{ID: 9, Store: 1}}}, nil
}

// checkedTiKV records which regions are flashed back, by their start keys; if changes is set, a row of each of those changes.
type checkedTiKV struct {
	TiKV
	changes bool
	before  func() // each prepare

	mu      sync.Mutex
	flashed map[string]bool
}

func (c *checkedTiKV) PrepareFlashback(context.Context, string, tikv.Flashback) error {
	if c.before != nil {
		c.before()
	}
	return nil
}

func (c *checkedTiKV) Flashback(_ context.Context, _ string, f tikv.Flashback) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flashed == nil {
		c.flashed = map[string]bool{}
	}
	c.flashed[string(f.Region.Keys.Start)] = true
	return nil
}

func (c *checkedTiKV) Digest(_ context.Context, _ string, r cluster.Region, _ cluster.TS) (tikv.Digest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := tikv.Digest{Rows: 3}
	if c.changes && c.flashed[string(r.Keys.Start)] {
		d.Sum[0]++
	}
	return d, nil
}

// otherRun is a fence that another run has come through.
type otherRun struct{ fenced.None }

func (*otherRun) Check(context.Context) error {
	return failure.New(failure.Conflict, "check lock", "", "another run has it")
}

// check takes n of 50 unchanged regions back.
func check(t *testing.T, store *checkedTiKV, fence fenced.Fence, n int) error {
	t.Helper()
	cfg := &settings{Config: Config{CheckUnchanged: n, Fence: fence, Stall: time.Minute}}
	calls := &recovery{stores: newStoreList(cfg, checkedPD{})}
	c := &regionCalls{cfg: cfg, pd: checkedPD{}, tikv: store, calls: calls, stamps: Stamps{Start: 100, Commit: 101}}
	var found []cluster.KeyRange
	for i := range 50 {
		keys := cluster.KeyRange{Start: mvcc.EncodeKey(fmt.Appendf(nil, "%02d", i)), End: mvcc.EncodeKey(fmt.Appendf(nil, "%02d", i+1))}
		found = append(found, keys)
	}
	return inStep(t, func(ctx context.Context, s *phase.Scope) error {
		checked, err := c.checkUnchanged(ctx, s, found)
		if err == nil {
			require.Equal(t, min(n, len(found)), checked)
		}
		return err
	})
}

func inStep(t *testing.T, do func(context.Context, *phase.Scope) error) error {
	t.Helper()
	return phase.New(phase.Config{Run: "run", Journal: phase.NoJournal{}}).Run(t.Context(), []phase.Step{{Phase: "p", Name: "s", Deadline: time.Minute, Do: do}})
}

// As many as requested are flashed back, and not the same ones each time.
func TestCheckUnchanged_TakesRandomOnesBack(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 10 {
		store := &checkedTiKV{}
		require.NoError(t, check(t, store, new(fenced.None), 3))
		require.Len(t, store.flashed, 3)
		for key := range store.flashed {
			seen[key] = true
		}
	}
	require.Greater(t, len(seen), 3)
	all := &checkedTiKV{}
	require.NoError(t, check(t, all, new(fenced.None), 1000))
	require.Len(t, all.flashed, 50)
}

func TestCheckUnchanged_ARowHasChanged_IsCorrupt(t *testing.T) {
	t.Parallel()
	err := check(t, &checkedTiKV{changes: true}, new(fenced.None), 1)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "--flashback=all")
}

// What another run has by now may serve already: nothing of it is prepared.
func TestCheckUnchanged_AnotherRunHasTheCluster_NothingIsFlashedBack(t *testing.T) {
	t.Parallel()
	store := &checkedTiKV{before: func() { t.Error("a region is prepared") }}
	err := check(t, store, &otherRun{}, 3)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Empty(t, store.flashed)
}

// The time that was saved is that of the unchanged regions at the rate of those that were flashed back.
func TestNoteSaved_IsAtTheMeasuredRate(t *testing.T) {
	t.Parallel()
	b := &flashback{states: &regionStates{leaders: make([]plan.Leader, 7)}, flashing: 8 * time.Second, record: &record{unchanged: 3}}
	b.flashes.Store(4)
	require.NoError(t, inStep(t, func(_ context.Context, s *phase.Scope) error {
		flashed, seconds := b.saved(s)
		require.Equal(t, 4, flashed)
		require.InDelta(t, 6, seconds, 1e-9)
		return nil
	}))
}
