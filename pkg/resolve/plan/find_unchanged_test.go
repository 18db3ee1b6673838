package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
)

// One peer that differs keeps its region from being unchanged, and a store that is left out keeps all of them.
func TestUnchanged_OneDifferentPeer_ChangesOnlyItsRegion(t *testing.T) {
	t.Parallel()
	set := marks.NewSet([]marks.Mark{{Region: 1, Version: 1, Term: 5, Index: 10}, {Region: 2, Version: 2, Term: 5, Index: 10}})
	for _, c := range []struct {
		name  string
		peers peers
		lost  []cluster.StoreID
		want  []bool
	}{
		{name: "all as at the marks", peers: onAll(peer(1, "", "m"), peer(2, "m", "", version(2))), want: []bool{true, true}},
		{
			name: "a follower of an older term has more log", want: []bool{false, true},
			peers: peers{1: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 2: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 3: {peer(1, "", "m", logs(4, 12, 0)), peer(2, "m", "", version(2))}},
		},
		{
			name: "a follower has voted since", want: []bool{true, false},
			peers: peers{1: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 2: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 3: {peer(1, "", "m"), peer(2, "m", "", version(2), logs(6, 10, 0))}},
		},
		{
			name: "a follower has not applied what made the region's version", want: []bool{true, false},
			peers: peers{1: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 2: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 3: {peer(1, "", "m"), peer(2, "k", "", version(1))}},
		},
		{
			name: "a region without a mark", want: []bool{true, false},
			peers: onAll(peer(1, "", "m"), peer(3, "m", "", version(2))),
		},
		{
			name: "a store is left out", want: []bool{false, false}, lost: []cluster.StoreID{3},
			peers: peers{1: {peer(1, "", "m"), peer(2, "m", "", version(2))}, 2: {peer(1, "", "m"), peer(2, "m", "", version(2))}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			made, err := makePlan(t, c.peers, 3, c.lost...)
			require.NoError(t, err)
			require.Equal(t, c.want, made.Unchanged(set))
			require.Equal(t, make([]bool, len(c.want)), made.Unchanged(nil), "without marks nothing is known")
		})
	}
}
