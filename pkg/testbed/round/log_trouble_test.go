package round

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// A seed repeats its stall, and seeds differ in where it begins, for how long, and on how many stores.
func TestDrawStall_SeedsCoverTheCuts(t *testing.T) {
	t.Parallel()
	points, cuts, stores := map[string]int{}, map[int]int{}, map[int]int{}
	for seed := range int64(200) {
		s := drawStall(seed, 3)
		require.Equal(t, s, drawStall(seed, 3))
		require.GreaterOrEqual(t, s.d, time.Second)
		require.LessOrEqual(t, s.d, 20*time.Second)
		require.NotEmpty(t, s.String())
		points[s.at]++
		stores[s.on]++
		if s.at == atCut {
			cuts[s.cuts]++
		}
	}
	require.Len(t, points, 3)
	require.Greater(t, points[atCut], 100)
	require.Len(t, cuts, 3, "before the first cut, and between any two")
	require.Len(t, stores, 2, "one store or two")
}

func TestJudgeAhead_GoesByTheBestLogOfTheRegion(t *testing.T) {
	t.Parallel()
	of := func(term, last, applied uint64) tikvtest.OnVolumes {
		return tikvtest.OnVolumes{Region: 7, Term: term, Last: last, Applied: applied}
	}
	for name, c := range map[string]struct {
		replicas map[uint64]tikvtest.OnVolumes
		want     Ahead
	}{
		"none":                       {map[uint64]tikvtest.OnVolumes{1: of(6, 10, 10), 2: of(6, 12, 9)}, Ahead{}},
		"ahead of its own log alone": {map[uint64]tikvtest.OnVolumes{1: of(6, 10, 12), 2: of(6, 12, 9)}, Ahead{Ahead: 1}},
		"a tie": {map[uint64]tikvtest.OnVolumes{1: of(6, 10, 14), 2: of(6, 10, 10)},
			Ahead{Ahead: 1, Affected: []Replica{{7, 1}}}},
		"its log is the best": {map[uint64]tikvtest.OnVolumes{1: of(6, 12, 14), 2: of(6, 10, 10), 3: of(6, 10, 8)},
			Ahead{Ahead: 1, Affected: []Replica{{7, 1}}, Best: 1}},
		"a newer term leads with a shorter log": {map[uint64]tikvtest.OnVolumes{1: of(6, 12, 14), 2: of(7, 11, 10)},
			Ahead{Ahead: 1, Affected: []Replica{{7, 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, *judgeAhead(map[uint64]map[uint64]tikvtest.OnVolumes{7: c.replicas}))
		})
	}
}
