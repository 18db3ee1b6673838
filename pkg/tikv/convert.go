package tikv

import (
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// regionPB converts a region to TiKV's type.
func regionPB(r cluster.Region) *metapb.Region {
	out := &metapb.Region{Id: uint64(r.ID), StartKey: r.Keys.Start, EndKey: r.Keys.End, RegionEpoch: epochPB(r)}
	for _, p := range r.Peers {
		out.Peers = append(out.Peers, peerPB(p))
	}
	return out
}

// regionOf converts a region from TiKV's type, without its leader.
func regionOf(r *metapb.Region) cluster.Region {
	out := cluster.Region{
		ID: cluster.RegionID(r.GetId()), Keys: cluster.KeyRange{Start: r.GetStartKey(), End: r.GetEndKey()},
		ConfVer: r.GetRegionEpoch().GetConfVer(), Version: r.GetRegionEpoch().GetVersion(),
	}
	for _, p := range r.GetPeers() {
		out.Peers = append(out.Peers, cluster.Peer{
			ID: cluster.PeerID(p.GetId()), Store: cluster.StoreID(p.GetStoreId()),
			Learner: p.GetRole() == metapb.PeerRole_Learner, Witness: p.GetIsWitness(),
		})
	}
	return out
}

func epochPB(r cluster.Region) *metapb.RegionEpoch {
	return &metapb.RegionEpoch{ConfVer: r.ConfVer, Version: r.Version}
}

func peerPB(p cluster.Peer) *metapb.Peer {
	out := &metapb.Peer{Id: uint64(p.ID), StoreId: uint64(p.Store)}
	if p.Learner {
		out.Role = metapb.PeerRole_Learner
	}
	return out
}

// contextPB addresses a request to the region's leader.
func contextPB(r cluster.Region) *kvrpcpb.Context {
	return &kvrpcpb.Context{RegionId: uint64(r.ID), RegionEpoch: epochPB(r), Peer: peerPB(r.Leader)}
}
