package resolve_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// marked is an original with the marks of the time before its hold, from list.
type marked struct {
	*original
	list  []marks.Mark
	empty cluster.TS // before the rows were loaded
	// pipelined is the start ts of a pipelined transaction that was open over all cuts; 0 is none.
	pipelined cluster.TS
}

func (m *marked) set() *marks.Set { return marks.NewSet(slices.Clone(m.list)) }

// mark reads the marks of all regions and returns the timestamp after them.
func (l *lab) mark(t *testing.T, m *marked) cluster.TS {
	t.Helper()
	regions, err := l.oracle.Regions(within(t), cluster.KeyRange{})
	require.NoError(t, err)
	var sources []marks.Source
	for _, s := range l.stores {
		sources = append(sources, marks.Source{Store: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	async, onePhase := int64(0), int64(0)
	for _, s := range l.stores {
		a, o := s.OwnTimestamps()
		async, onePhase = async+a, onePhase+o
	}
	require.Positive(t, async, "no transaction has committed asynchronously")
	require.Positive(t, onePhase, "no transaction has committed in one phase")
	reading, err := marks.Read(within(t), l.client, sources, regions, func() {})
	require.NoError(t, err)
	set := reading.Set()
	for _, r := range regions {
		if mark, ok := set.Find(r.ID); ok {
			m.list = append(m.list, mark)
		}
	}
	require.Greater(t, len(m.list), len(regions)/2)
	ts, err := l.oracle.Now(within(t))
	require.NoError(t, err)
	return ts
}

// TestMarks resolves the copies of one cluster, most of whose regions were at rest.
func TestMarks(t *testing.T) {
	t.Parallel()
	m := makeMarked(t, 3, func(*lab, *workload.Workload) func() { return func() {} })
	for _, c := range []struct {
		name string
		test func(t *testing.T, m *marked)
	}{
		{"what changed is flashed back, and nothing else", onlyChanged},
		{"unchanged regions that are flashed back anyway do not change", checkedAll},
		{"a store restarts and answers are lost while locks are looked for", marksUnderFaults},
		{"marks that are not true are found out", untrueMarks},
		{"all is flashed back on demand, also what an earlier run had found unchanged", allOnDemand},
		{"a run that is killed hands on what it has proven", handedOn},
		{"a cluster without one of its stores is flashed back as a whole", withoutStore},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, m)
		})
	}
}

func onlyChanged(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	cfg := l.config(m.original, "run")
	cfg.Marks = m.set()
	scans := 0
	r, err := l.run(t, cfg, map[string]func(){"find-unchanged": func() { scans = l.faults.Calls("pd.ScanRegions") }})
	require.NoError(t, err)
	l.verify(t, m.original)
	stats := r.Stats()
	// What is refused is looked up again; without that the wait for leaders has made the last scan.
	require.LessOrEqual(t, l.faults.Calls("pd.ScanRegions")-scans, int(stats.Retries), "regions were listed again for each sweep")
	require.Positive(t, stats.Unchanged)
	require.Positive(t, stats.Flashed, "transfers continued during the cut")
	require.Positive(t, stats.SavedSeconds)
	require.Equal(t, stats.Regions, stats.Unchanged+stats.Flashed)
	require.LessOrEqual(t, l.flashbacks(), stats.Flashed)
}

// flashbacks counts the calls that the stores have carried out.
func (l *lab) flashbacks() int {
	n := 0
	for _, s := range l.stores {
		for _, call := range s.MutatingCalls() {
			if call == "KvFlashbackToVersion" {
				n++
			}
		}
	}
	return n
}

func checkedAll(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	cfg := l.config(m.original, "run")
	cfg.Marks, cfg.CheckUnchanged = m.set(), math.MaxInt
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	l.verify(t, m.original)
	require.Positive(t, r.Stats().Unchanged)
	require.Equal(t, r.Stats().Unchanged, r.Stats().Checked)
	require.GreaterOrEqual(t, l.flashbacks(), r.Stats().Regions, "all were flashed back")
}

func marksUnderFaults(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	for _, rule := range []fault.Rule{
		{Point: "tikv.*.KvScanLock", Code: "Unavailable", Times: 3},
		{Point: "tikv.*.KvScanLock", Nth: 4, Code: "not_leader", Times: 2},
		{Point: "tikv.*.KvScanLock", Nth: 7, Code: "server_is_busy", Times: 2},
	} {
		require.NoError(t, l.faults.Add(rule))
	}
	cfg := l.config(m.original, "run")
	cfg.Marks = m.set()
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	l.verify(t, m.original)
	require.Positive(t, r.Stats().Unchanged)
}

// untrue is marks by which every region ends where the stores report that it does.
func untrue(t *testing.T, l *lab, cfg resolve.Config) *marks.Set {
	t.Helper()
	r := resolve.New(l.client, nil)
	r.Target(cfg, l.oracle)
	require.NoError(t, planOnly(t, r))
	var list []marks.Mark
	for _, leader := range r.Plan().Leaders {
		list = append(list, marks.Mark{Region: leader.Region, Version: leader.Version, Term: leader.Term, Index: leader.Index})
	}
	return marks.NewSet(list)
}

func untrueMarks(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	cfg := l.config(m.original, "run")
	cfg.Marks, cfg.CheckUnchanged = untrue(t, l, cfg), math.MaxInt
	// What changed last may be locked in every region, and is found out by that: here all regions have changed.
	cfg.BackupTS = m.empty
	_, err := l.run(t, cfg, nil)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "--flashback=all")
}

func allOnDemand(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	progress := &memoryProgress{}
	cfg := l.config(m.original, "first")
	cfg.Marks, cfg.Progress = untrue(t, l, cfg), progress
	_, err := l.run(t, cfg, map[string]func(){"prepare": progress.stop})
	require.Error(t, err)
	require.Positive(t, progress.saved.Unchanged)
	progress.stopped = false
	again := l.config(m.original, "second")
	again.Marks, again.FlashAll, again.Progress = m.set(), true, progress
	r, err := l.run(t, again, nil)
	require.NoError(t, err)
	l.verify(t, m.original)
	require.Zero(t, r.Stats().Unchanged)
}

func handedOn(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	progress := &memoryProgress{}
	cfg := l.config(m.original, "first")
	cfg.Marks, cfg.Progress = m.set(), progress
	_, err := l.run(t, cfg, map[string]func(){"prepare": progress.stop})
	require.Error(t, err)
	found := progress.saved.Unchanged
	require.Positive(t, found)
	progress.stopped = false
	again := l.config(m.original, "second")
	again.Marks, again.Progress = m.set(), progress
	r, err := l.run(t, again, nil)
	require.NoError(t, err)
	l.verify(t, m.original)
	require.Equal(t, found, r.Stats().Unchanged)
	require.LessOrEqual(t, l.flashbacks(), r.Stats().Regions-found)
}

func withoutStore(t *testing.T, m *marked) {
	l := restoreLab(t, m.original, 1)
	cfg := l.config(m.original, "run")
	cfg.Marks, cfg.TolerateStores = m.set(), cfg.Stores[:1]
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	require.Zero(t, r.Stats().Unchanged)
	l.verify(t, m.original)
}
