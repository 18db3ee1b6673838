package backup_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// marking are options with marks.
func (r *rig) marking() backup.Options {
	o := r.options()
	o.Marks = backup.AutoMarks
	return o
}

func TestRun_Marks_AreSealedAndBelowTheBackupTS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.marking()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	m, err := catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
	require.NoError(t, err)
	require.Equal(t, result.Manifest.Marks, m.Marks)
	require.NotNil(t, m.Marks)
	require.GreaterOrEqual(t, m.BackupTS, marks.After(m.Marks.TS))
	set, err := catalog.Catalog{Store: r.store}.Marks(t.Context(), m)
	require.NoError(t, err)
	require.Positive(t, set.Len())
	require.Equal(t, m.Marks.Regions, set.Len())
	require.Equal(t, result.Regions, m.Marks.Of, "of all regions, so that an estimate knows the share")
	require.Positive(t, m.Marks.Of)
	// Other bytes than those that were sealed are refused.
	body, version, err := r.store.Get(t.Context(), manifest.MarksKey(o.Backup))
	require.NoError(t, err)
	body[len(body)-1]++
	_, err = r.store.Replace(t.Context(), manifest.MarksKey(o.Backup), body, version)
	require.NoError(t, err)
	_, err = catalog.Catalog{Store: r.store}.Marks(t.Context(), m)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	_, err = catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
	require.NoError(t, err, "the backup is as good without them")
}

// No marks, or fewer, are no failure of a backup.
func TestRun_MarksCannotBeRead_IsSealedWithout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		rules   []fault.Rule
		timeout time.Duration
		none    bool // the manifest has no marks at all
		message string
	}{
		{"no store has the service", []fault.Rule{{Point: "tikv.*.RegionInfo", Code: "Unimplemented", Times: -1}}, 0, false, "do not show their raft logs"},
		{"no store answers", []fault.Rule{{Point: "tikv.*.RegionInfo", Position: fault.After, Times: -1}}, 0, false, "answers are missing"},
		{"the resolved ts takes too long", nil, time.Nanosecond, true, "did not pass the marks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for _, rule := range c.rules {
				r.fault(t, rule)
			}
			o := r.marking()
			o.MarksTimeout = c.timeout
			result, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			r.requireSealed(t, o)
			require.Contains(t, strings.Join(r.events.texts(), "\n"), c.message)
			if c.none {
				require.Nil(t, result.Manifest.Marks)
				return
			}
			require.Zero(t, result.Manifest.Marks.Regions)
		})
	}
}

// lastResolvedPD notes the resolved ts that was read last.
type lastResolvedPD struct {
	backup.PD
	last atomic.Uint64
}

func (p *lastResolvedPD) ResolvedTS(ctx context.Context) (pd.ResolvedTS, error) {
	got, err := p.PD.ResolvedTS(ctx)
	if err == nil {
		p.last.Store(uint64(got.TS))
	}
	return got, err
}

// The wait for the resolved ts, which is a second or more, is no part of the hold.
func TestRun_MarksAreAhead_HoldWaitsForTheResolvedTS(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := &lastResolvedPD{PD: r.deps.PD}
	r.deps.PD = p
	var before atomic.Uint64
	r.events.at("connect", func() { before.CompareAndSwap(0, p.last.Load()) })
	o := r.marking()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.NotNil(t, result.Manifest.Marks)
	require.GreaterOrEqual(t, cluster.TS(before.Load()), marks.After(result.Manifest.Marks.TS))
}

// restartedPD shows a store as started again, from some call on.
type restartedPD struct {
	backup.PD
	restarted func() bool
	store     cluster.StoreID
}

func (p *restartedPD) Stores(ctx context.Context) ([]pd.Store, error) {
	stores, err := p.PD.Stores(ctx)
	for i := range stores {
		if stores[i].ID == p.store && p.restarted() {
			stores[i].StartedAt = stores[i].StartedAt.Add(time.Minute)
		}
	}
	return stores, err
}

// leader is a store that leads a region.
func (r *rig) leader(t *testing.T) cluster.StoreID {
	t.Helper()
	for _, s := range r.c.Stores() {
		for _, p := range s.Peers() {
			if p.Leader {
				return cluster.StoreID(s.ID())
			}
		}
	}
	t.Fatal("no store leads a region")
	return 0
}

// requireNoMarksOf checks that no region has a mark that the store leads.
func (r *rig) requireNoMarksOf(t *testing.T, set *marks.Set, store cluster.StoreID) {
	t.Helper()
	for _, s := range r.c.Stores() {
		for _, p := range s.Peers() {
			if _, ok := set.Find(cluster.RegionID(p.Region.Id)); ok && p.Leader {
				require.NotEqual(t, store, cluster.StoreID(s.ID()))
			}
		}
	}
}

func TestRun_StoreRestartsAfterItsMarks_TheyAreDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	leader := r.leader(t)
	recording := make(chan struct{})
	r.events.at("release", func() { close(recording) })
	r.deps.PD = &restartedPD{PD: r.deps.PD, store: leader, restarted: func() bool {
		select {
		case <-recording:
			return true
		default:
			return false
		}
	}}
	o := r.marking()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Contains(t, strings.Join(r.events.texts(), "\n"), "have restarted since their marks were read")
	m, err := catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
	require.NoError(t, err)
	set, err := catalog.Catalog{Store: r.store}.Marks(t.Context(), m)
	require.NoError(t, err)
	r.requireNoMarksOf(t, set, leader)
}
