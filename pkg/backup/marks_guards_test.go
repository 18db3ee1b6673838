package backup_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// clockedTiKV takes a timestamp from PD after each raft state that was read.
type clockedTiKV struct {
	backup.TiKV
	pd   backup.PD
	last atomic.Uint64
	read atomic.Int64
}

func (c *clockedTiKV) RaftState(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error) {
	state, err := c.TiKV.RaftState(ctx, address, region)
	ts, nowErr := c.pd.Now(ctx)
	if nowErr != nil {
		return state, nowErr
	}
	for last := c.last.Load(); uint64(ts) > last && !c.last.CompareAndSwap(last, uint64(ts)); last = c.last.Load() {
	}
	c.read.Add(1)
	return state, err
}

// What a store has proposed when it shows its log was proposed before a timestamp that is taken later, and of no other one.
func TestRun_MarksTS_IsTakenAfterTheLastMark(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	clocked := &clockedTiKV{TiKV: r.deps.TiKV, pd: r.deps.PD}
	r.deps.TiKV = clocked
	result, err := r.run(t.Context(), t, r.marking())
	require.NoError(t, err)
	require.NotNil(t, result.Manifest.Marks)
	require.EqualValues(t, result.Manifest.Marks.Of, clocked.read.Load(), "each region is read once")
	require.Greater(t, result.Manifest.Marks.TS, cluster.TS(clocked.last.Load()))
}

// backPD goes back to the first resolved ts that it has read, a few times.
type backPD struct {
	backup.PD
	first, times atomic.Int64
}

func (p *backPD) ResolvedTS(ctx context.Context) (pd.ResolvedTS, error) {
	got, err := p.PD.ResolvedTS(ctx)
	if err != nil {
		return got, err
	}
	p.first.CompareAndSwap(0, int64(got.TS))
	if p.times.Add(-1) >= 0 {
		got.TS = cluster.TS(p.first.Load())
	}
	return got, nil
}

// A backup ts that is not above the marks would make them of no use; and no resolved ts is below one that was read before.
func TestRun_ResolvedTSGoesBackBelowTheMarks_BackupTSIsAboveThem(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := &backPD{PD: r.deps.PD}
	r.deps.PD = p
	r.events.at("hold-gc", func() { p.times.Store(3) })
	result, err := r.run(t.Context(), t, r.marking())
	require.NoError(t, err)
	require.NotNil(t, result.Manifest.Marks)
	require.GreaterOrEqual(t, result.Manifest.BackupTS, marks.After(result.Manifest.Marks.TS))
	require.Contains(t, strings.Join(r.events.texts(), "\n"), "went back")
}

// otherPD shows a cluster of another version, or other stores.
type otherPD struct {
	backup.PD
	version string
	stores  func([]pd.Store) []pd.Store
}

func (p *otherPD) Version(ctx context.Context) (string, error) {
	if p.version != "" {
		return p.version, nil
	}
	return p.PD.Version(ctx)
}

func (p *otherPD) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := p.PD.Stores(ctx)
	if err == nil && p.stores != nil {
		stores = p.stores(stores)
	}
	return stores, err
}

// What a TiKV shows of its logs counts only if it is one whose reports are known; in the middle of an upgrade the cluster's
// version is that of the oldest store.
func TestRun_TiKVThatIsNotKnown_HasNoMarks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pd      otherPD
		message string
	}{
		"the cluster": {otherPD{version: "9.9.9"}, "TiKV 9.9.9 is not supported"},
		"one store": {otherPD{stores: func(stores []pd.Store) []pd.Store {
			stores[len(stores)-1].Version = "9.9.9"
			return stores
		}}, "TiKV 9.9.9 is not supported"},
		"a store without a version": {otherPD{stores: func(stores []pd.Store) []pd.Store {
			stores[0].Version = ""
			return stores
		}}, "TiKV of no version is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			c.pd.PD = r.deps.PD
			r.deps.PD = &c.pd
			result, err := r.run(t.Context(), t, r.marking())
			require.NoError(t, err)
			require.Nil(t, result.Manifest.Marks)
			require.Contains(t, strings.Join(r.events.texts(), "\n"), c.message)
		})
	}
}

// A store's marks count only if the process that has shown its log is known to be the one that was cut.
func TestRun_ProcessThatShowedItsLog_IsNotProvenToBeTheOneThatWasCut(t *testing.T) {
	t.Parallel()
	gone := func(stores []pd.Store, leader cluster.StoreID) []pd.Store {
		return slices.DeleteFunc(stores, func(st pd.Store) bool { return st.ID == leader })
	}
	timeless := func(stores []pd.Store, _ cluster.StoreID) []pd.Store {
		for i := range stores {
			stores[i].StartedAt = time.Time{}
		}
		return stores
	}
	for name, c := range map[string]struct {
		from string // the step from which on PD shows something else
		show func(stores []pd.Store, leader cluster.StoreID) []pd.Store
		none bool // no region has a mark
	}{
		"it is gone from PD":                           {"release", gone, false},
		"PD does not know when the stores started":     {"marks", timeless, true},
		"PD has forgotten since when they are running": {"release", timeless, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			leader := r.leader(t)
			var shown atomic.Bool
			r.events.at(c.from, func() { shown.Store(true) })
			r.deps.PD = &otherPD{PD: r.deps.PD, stores: func(stores []pd.Store) []pd.Store {
				if !shown.Load() {
					return stores
				}
				return c.show(stores, leader)
			}}
			o := r.marking()
			_, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			require.Contains(t, strings.Join(r.events.texts(), "\n"), "have restarted since their marks were read")
			m, err := catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
			require.NoError(t, err)
			set, err := catalog.Catalog{Store: r.store}.Marks(t.Context(), m)
			require.NoError(t, err)
			if c.none {
				require.Zero(t, set.Len())
			}
			r.requireNoMarksOf(t, set, leader)
		})
	}
}
