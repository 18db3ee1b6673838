package tikvtest

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// A split is in the data before its new region has a peer. A message of that region's leader on another store, which may
// come at this very moment, must not make an empty member of it.
func TestOccupied_SplitWhoseNewRegionHasNoPeerYet(t *testing.T) {
	t.Parallel()
	data, err := openKVEngine(disk.New(1 << 20))
	require.NoError(t, err)
	region := func(id uint64, start, end string) *metapb.Region {
		return &metapb.Region{Id: id, StartKey: []byte(start), EndKey: []byte(end), Peers: []*metapb.Peer{{Id: id + 1, StoreId: 1}}, RegionEpoch: &metapb.RegionEpoch{Version: 1}}
	}
	parent, right, left := region(10, "", ""), region(10, "m", ""), region(20, "", "m")
	s := &Store{id: 1, data: data, peers: map[uint64]*peer{}}
	w := &raftWorker{store: s}
	require.False(t, w.occupied(left))
	data.apply(10, initialIndex, initialTerm, []localState{{region: parent}}, nil)
	require.True(t, w.occupied(left))
	data.apply(10, initialIndex+1, initialTerm, []localState{{region: left}, {region: right}}, nil)
	s.peers[10] = newPeer(localState{region: right}, initialIndex+1, initialTerm, 1)
	require.True(t, w.occupied(left), "its data are here")
	data.apply(20, initialIndex+1, initialTerm, []localState{{region: left, gone: true}}, nil)
	require.False(t, w.occupied(left), "it is no member any more")
	require.True(t, w.occupied(right))
}
