package plan_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestPlan_Others_AreInTheOrderOfTheirLogs(t *testing.T) {
	t.Parallel()
	made, err := makePlan(t, peers{
		1: {peer(1, "", "", logs(4, 30, 0))}, 2: {peer(1, "", "", logs(5, 9, 0))}, 3: {peer(1, "", "", logs(5, 10, 0))},
		4: {peer(1, "", "", logs(5, 10, 0))},
	}, 3)
	require.NoError(t, err)
	l := &made.Leaders[0]
	require.Equal(t, cluster.StoreID(3), l.Store)
	require.Equal(t, []cluster.StoreID{4, 2, 1}, made.Others(l))
}

func TestPlan_Move_GivesTheCommandToTheOtherStoreAlone(t *testing.T) {
	t.Parallel()
	made, err := makePlan(t, onAll(peer(1, "", "b"), peer(2, "b", "c"), peer(3, "c", "")), 3)
	require.NoError(t, err)
	l := &made.Leaders[1]
	from, to := l.Store, made.Others(l)[0]
	before := made.Commands[from]
	require.ElementsMatch(t, []cluster.StoreID{from, to}, made.Move(map[cluster.RegionID]cluster.StoreID{2: to}))
	require.Equal(t, to, l.Store)
	require.Contains(t, before, tikv.Command{Region: 2, AsLeader: true}, "a call under way may still read it")
	require.NotContains(t, made.Commands[from], tikv.Command{Region: 2, AsLeader: true})
	require.Contains(t, made.Commands[to], tikv.Command{Region: 2, AsLeader: true})
	require.Len(t, made.Commands[to], 2)
	require.Contains(t, made.Others(l), from)
}
