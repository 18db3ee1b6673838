package workload

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
)

func loadedHistory(balance int64, keys ...string) *History {
	h := newHistory()
	var changes []change
	for _, k := range keys {
		changes = append(changes, change{key: k, balance: balance})
	}
	h.loaded(1, 2, changes)
	return h
}

func copyOf(rows map[string]Row) *Copy { return &Copy{Rows: maps.Clone(rows)} }

func TestHistory_At_GivesEachRowOfThatTime(t *testing.T) {
	t.Parallel()
	h := loadedHistory(10, "acct/a", "acct/b")
	h.committed(20, 25, []change{{key: "acct/a", balance: 6, prev: 10}, {key: "xfer/20", balance: 1}})
	h.committed(10, 15, []change{{key: "acct/a", balance: 7, prev: 1}}) // reported late
	h.committed(30, 35, []change{{key: "xfer/20", gone: true, prev: 20}})
	require.Empty(t, maps.Collect(h.At(1)))
	require.Equal(t, map[string]Row{"acct/a": {10, 1}, "acct/b": {10, 1}}, maps.Collect(h.At(14)))
	require.Equal(t, map[string]Row{"acct/a": {7, 10}, "acct/b": {10, 1}}, maps.Collect(h.At(15)))
	require.Equal(t, map[string]Row{"acct/a": {6, 20}, "acct/b": {10, 1}, "xfer/20": {1, 20}}, maps.Collect(h.At(34)))
	require.Equal(t, map[string]Row{"acct/a": {6, 20}, "acct/b": {10, 1}}, maps.Collect(h.At(35)))
}

func TestHistory_Forget_KeepsWhatIsVisibleLater(t *testing.T) {
	t.Parallel()
	h := loadedHistory(10, "acct/a", "acct/b")
	h.committed(10, 15, []change{{key: "acct/a", balance: 7, prev: 1}, {key: "acct/b", balance: 13, prev: 1}, {key: "xfer/10"}})
	h.committed(20, 25, []change{{key: "xfer/10", gone: true, prev: 10}})
	late := maps.Collect(h.At(30))
	h.Forget(30)
	require.Equal(t, late, maps.Collect(h.At(30)))
	require.Len(t, h.rows, 2, "deleted rows are forgotten altogether")
	require.NoError(t, h.Check(copyOf(late), 30).Err())
	require.Error(t, h.Check(copyOf(late), 29).Err(), "too old to know")
}

func TestCheck_EachFault_IsCounted(t *testing.T) {
	t.Parallel()
	right := map[string]Row{"acct/a": {10, 1}, "acct/b": {10, 1}}
	cases := []struct {
		name   string
		change func(rows map[string]Row)
		want   Result
	}{
		{"right", func(map[string]Row) {}, Result{}},
		{"missing", func(rows map[string]Row) { delete(rows, "acct/a") }, Result{Missing: 1}},
		{"never written", func(rows map[string]Row) { rows["acct/z"] = Row{0, 9} }, Result{Extra: 1}},
		{"deleted before", func(rows map[string]Row) { rows["xfer/5"] = Row{1, 5} }, Result{Extra: 1}},
		{"other balance", func(rows map[string]Row) { rows["acct/a"] = Row{11, 1} }, Result{Wrong: 1}},
		{"other writer", func(rows map[string]Row) { rows["acct/a"] = Row{10, 7} }, Result{Wrong: 1}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := loadedHistory(10, "acct/a", "acct/b")
			h.committed(5, 6, []change{{key: "xfer/5", balance: 1}})
			h.committed(7, 8, []change{{key: "xfer/5", gone: true, prev: 5}})
			rows := maps.Clone(right)
			tc.change(rows)
			r := h.Check(copyOf(rows), 9)
			require.Equal(t, tc.want.Missing, r.Missing, tc.name)
			require.Equal(t, tc.want.Extra, r.Extra, tc.name)
			require.Equal(t, tc.want.Wrong, r.Wrong, tc.name)
			require.Equal(t, tc.name == "right", r.Err() == nil, tc.name)
		})
	}
	c := copyOf(right)
	c.Unreadable = []string{"acct/c"}
	require.Equal(t, 1, loadedHistory(10, "acct/a", "acct/b").Check(c, 9).Wrong)
}

func TestCheck_Undetermined_BothOutcomesOrWhatIsProven(t *testing.T) {
	t.Parallel()
	without := map[string]Row{"acct/a": {10, 1}, "acct/b": {10, 1}}
	with := map[string]Row{"acct/a": {8, 10}, "acct/b": {12, 10}}
	torn := map[string]Row{"acct/a": {8, 10}, "acct/b": {10, 1}}
	undetermined := func() *History {
		h := loadedHistory(10, "acct/a", "acct/b")
		h.unanswered(10, []change{{key: "acct/a", balance: 8, prev: 1}, {key: "acct/b", balance: 12, prev: 1}})
		return h
	}
	h := undetermined()
	require.NoError(t, h.Check(copyOf(without), 20).Err())
	require.NoError(t, h.Check(copyOf(with), 20).Err())
	require.Equal(t, 1, h.Check(copyOf(torn), 20).Torn)
	require.Error(t, h.Check(copyOf(with), 10).Err(), "before it began it cannot be there")

	saw := undetermined()
	saw.committed(30, 31, []change{{key: "acct/a", balance: 8, prev: 10}})
	require.NoError(t, saw.Check(copyOf(with), 20).Err(), "its exact commit ts is unknown")
	require.NoError(t, saw.Check(copyOf(without), 20).Err())
	after := map[string]Row{"acct/a": {8, 30}, "acct/b": {12, 10}}
	require.NoError(t, saw.Check(copyOf(after), 31).Err())
	after["acct/b"] = Row{10, 1}
	require.Equal(t, 1, saw.Check(copyOf(after), 31).Wrong, "someone saw it, so it has to be there")

	exact := undetermined()
	exact.committed(30, 31, []change{{key: "acct/a", balance: 8, prev: 10, prevCommit: 12}})
	require.NoError(t, exact.Check(copyOf(without), 11).Err())
	require.Error(t, exact.Check(copyOf(without), 12).Err())
	require.Zero(t, exact.Undetermined())

	missed := undetermined()
	missed.committed(30, 31, []change{{key: "acct/a", balance: 10, prev: 1}})
	require.Error(t, missed.Check(copyOf(with), 20).Err(), "someone overwrote what was before it")
	require.Zero(t, missed.Undetermined())
}

// TestDecide_AnySubsetUnanswered_NeverContradictsTheTruth runs serial transactions of which some commits are not
// answered and of those some did not happen, in random order of reports.
func TestDecide_AnySubsetUnanswered_NeverContradictsTheTruth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		keys := []string{"acct/a", "acct/b", "acct/c"}
		h := loadedHistory(100, keys...)
		type state struct {
			row    Row
			commit cluster.TS
		}
		now := map[string]state{}
		for _, k := range keys {
			now[k] = state{Row{100, 1}, 2}
		}
		var reports []func()
		truth := map[cluster.TS]map[string]Row{}
		ts := cluster.TS(10)
		for range rapid.IntRange(1, 12).Draw(rt, "transactions") {
			start, commit := ts, ts+3
			ts += 10
			exact := rapid.Bool().Draw(rt, "exact")
			pair := rapid.Permutation(keys).Draw(rt, "pair")[:2]
			var changes []change
			for i, k := range pair {
				c := change{key: k, balance: now[k].row.Balance + int64(2*i-1), prev: now[k].row.Writer}
				if exact {
					c.prevCommit = now[k].commit
				}
				changes = append(changes, c)
			}
			happened, answered := true, rapid.Bool().Draw(rt, "answered")
			if !answered {
				happened = rapid.Bool().Draw(rt, "happened")
			}
			if happened {
				for _, c := range changes {
					now[c.key] = state{Row{c.balance, start}, commit}
				}
			}
			if answered {
				reports = append(reports, func() { h.committed(start, commit, changes) })
			} else {
				reports = append(reports, func() { h.unanswered(start, changes) })
			}
			rows := map[string]Row{}
			for k, s := range now {
				rows[k] = s.row
			}
			truth[commit] = rows
		}
		for _, report := range rapid.Permutation(reports).Draw(rt, "order") {
			report()
			h.Undetermined() // decides what it can in between
		}
		for _, at := range slices.Sorted(maps.Keys(truth)) {
			for _, probe := range []cluster.TS{at, at + 3} {
				r := h.Check(copyOf(truth[at]), probe)
				require.NoError(rt, r.Err(), "at %d", probe)
			}
		}
	})
}
