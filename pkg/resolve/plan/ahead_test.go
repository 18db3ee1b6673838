package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func ahead(store cluster.StoreID, applied uint64) plan.Ahead {
	return plan.Ahead{Region: 7, Store: store, Applied: applied}
}

// indexes is one region on stores 1, 2, 3, whose logs end there.
func indexes(last ...uint64) peers {
	p := peers{}
	for i, n := range last {
		p[cluster.StoreID(i+1)] = []tikv.RegionMeta{peer(7, "", "", logs(5, n, 0))}
	}
	return p
}

func TestMakePlan_ReplicasAheadOfTheirLogs(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		logs     peers
		ahead    []plan.Ahead
		sure     bool
		leader   cluster.StoreID
		others   []cluster.StoreID
		affected []plan.Ahead
	}{
		"a tie":                                {indexes(10, 10, 10), []plan.Ahead{ahead(1, 12)}, false, 2, []cluster.StoreID{3}, []plan.Ahead{ahead(1, 12)}},
		"two of a tie of five":                 {indexes(10, 10, 10, 10, 10), []plan.Ahead{ahead(1, 12), ahead(2, 12)}, false, 3, []cluster.StoreID{4, 5}, []plan.Ahead{ahead(1, 12), ahead(2, 12)}},
		"two of a tie of three":                {indexes(10, 10, 10), []plan.Ahead{ahead(1, 12), ahead(2, 12)}, false, 3, nil, []plan.Ahead{ahead(1, 12), ahead(2, 12)}},
		"two of three, one with the best log":  {indexes(12, 10, 10), []plan.Ahead{ahead(1, 14), ahead(2, 14)}, false, 1, []cluster.StoreID{3}, []plan.Ahead{ahead(1, 14), ahead(2, 14)}},
		"three of a tie of five":               {indexes(10, 10, 10, 10, 10), []plan.Ahead{ahead(1, 12), ahead(2, 12), ahead(3, 12)}, false, 4, []cluster.StoreID{5}, []plan.Ahead{ahead(1, 12), ahead(2, 12), ahead(3, 12)}},
		"the best log":                         {indexes(12, 10, 10), []plan.Ahead{ahead(1, 14)}, false, 1, []cluster.StoreID{2, 3}, []plan.Ahead{ahead(1, 14)}},
		"of its own log alone":                 {indexes(10, 14, 14), []plan.Ahead{ahead(1, 14)}, false, 2, []cluster.StoreID{3, 1}, nil},
		"of a shorter log, and of the best":    {indexes(10, 12, 12), []plan.Ahead{ahead(1, 14)}, false, 2, []cluster.StoreID{3}, []plan.Ahead{ahead(1, 14)}},
		"the leader's log has grown since":     {indexes(20, 20, 20), []plan.Ahead{ahead(1, 14)}, true, 2, []cluster.StoreID{3}, []plan.Ahead{ahead(1, 14)}},
		"a region that the plan does not have": {indexes(10, 10, 10), []plan.Ahead{{Region: 8, Store: 1, Applied: 12}}, false, 1, []cluster.StoreID{2, 3}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, err := plan.Make(t.Context(), row.logs.metas(t), plan.Rules{Replicas: len(row.logs), Ahead: row.ahead, AheadForSure: row.sure})
			require.NoError(t, err)
			require.Equal(t, row.leader, made.Leaders[0].Store)
			require.Equal(t, row.affected, made.Affected)
			require.ElementsMatch(t, row.others, made.Others(&made.Leaders[0]))
			if row.leader == 1 && len(row.affected) > 0 {
				require.Len(t, made.AffectedLeaders(), 1)
			} else {
				require.Empty(t, made.AffectedLeaders())
			}
		})
	}
}

func TestMakePlan_NoHealthyReplicaIsLeft_IsCorrupt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		logs  peers
		rules plan.Rules
		why   string
	}{
		"the only one is ahead": {indexes(10), plan.Rules{Replicas: 1, Ahead: []plan.Ahead{ahead(1, 12)}}, "every replica"},
		"one has applied a split": {peers{
			1: {peer(7, "", "b", logs(5, 10, 0), version(2)), peer(8, "b", "", logs(5, 10, 0), version(2))},
			2: {peer(7, "", "", logs(5, 10, 0))}, 3: {peer(7, "", "", logs(5, 10, 0))},
		}, plan.Rules{Replicas: 3, Ahead: []plan.Ahead{ahead(1, 12)}}, "disagree about the region's keys"},
		"all are ahead":                 {indexes(10, 10, 10), plan.Rules{Replicas: 3, Ahead: []plan.Ahead{ahead(1, 12), ahead(2, 12), ahead(3, 11)}}, "every replica"},
		"one is missing, another ahead": {indexes(10, 10), plan.Rules{Replicas: 3, Lost: []cluster.StoreID{3}, Ahead: []plan.Ahead{ahead(1, 12)}}, "a replica is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := plan.Make(t.Context(), row.logs.metas(t), row.rules)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			require.ErrorContains(t, err, "region 7 on store 1, applied up to index 12")
			require.ErrorContains(t, err, row.why)
		})
	}
}

// Its log may end where it did at the mark: what the data hold above it was written since.
func TestUnchanged_ReplicaAheadOfTheLog_IsFlashedBack(t *testing.T) {
	t.Parallel()
	set := marks.NewSet([]marks.Mark{{Region: 7, Version: 1, Term: 5, Index: 10}})
	unchanged := func(early ...plan.Ahead) []bool {
		made, err := plan.Make(t.Context(), indexes(10, 10, 10).metas(t), plan.Rules{Replicas: 3, Ahead: early})
		require.NoError(t, err)
		return made.Unchanged(set)
	}
	require.Equal(t, []bool{true}, unchanged())
	require.Equal(t, []bool{false}, unchanged(ahead(1, 12)))
}

// Whatever the logs: a peer that is ahead leads only if no other has as good a log, and exactly those are affected whose
// data are above the best log.
func TestMakePlan_Ahead_Property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.SliceOfN(rapid.Uint64Range(8, 12), 3, 3).Draw(t, "last")
		lead := max(last[0], last[1], last[2])
		var list, want []plan.Ahead
		early := map[cluster.StoreID]bool{}
		for i, n := range last {
			applied := rapid.Uint64Range(6, 14).Draw(t, "applied")
			if applied <= n {
				continue
			}
			a := ahead(cluster.StoreID(i+1), applied)
			list, early[a.Store] = append(list, a), true
			if applied > lead {
				want = append(want, a)
			}
		}
		made, err := plan.Make(t.Context(), indexes(last...).metas(t), plan.Rules{Replicas: 3, Ahead: list})
		if len(want) == 3 {
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, made.Affected)
		leader := made.Leaders[0].Store
		require.Equal(t, lead, last[leader-1], "the best log leads")
		for i, n := range last {
			if n == lead && !early[cluster.StoreID(i+1)] {
				require.False(t, early[leader], "store %d could lead as well", i+1)
			}
		}
	})
}
