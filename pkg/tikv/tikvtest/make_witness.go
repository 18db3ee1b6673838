package tikvtest

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/metapb"
)

// MakeWitness puts a witness in the place of the region's peer on a store, as PD does: the peer is removed, and one that is a
// witness comes as a learner and becomes a voter. It asks the region's leaders among the stores until ctx ends.
func MakeWitness(ctx context.Context, region uint64, on *Store, stores ...*Store) error {
	m := &Move{Region: region, From: on, To: on}
	add := func(ctx context.Context, leader *Store) error {
		r, err := m.region(leader)
		if err != nil || peerOn(r, on.id) != nil {
			return err
		}
		id, err := leader.allocID(ctx)
		if err != nil {
			return err
		}
		return leader.ChangePeers(ctx, region, &PeerChange{
			ChangeType: eraftpb.ConfChangeType_AddLearnerNode,
			Peer:       &metapb.Peer{Id: id, StoreId: on.id, Role: metapb.PeerRole_Learner, IsWitness: true},
		})
	}
	promote := func(ctx context.Context, leader *Store) error {
		r, err := m.region(leader)
		if err != nil {
			return err
		}
		member := peerOn(r, on.id)
		switch {
		case member != nil && member.Role == metapb.PeerRole_Voter:
			return nil
		case member == nil || on.peer(region) == nil:
			return fmt.Errorf("make witness of region %d: store %d has no peer yet", region, on.id)
		}
		return leader.ChangePeers(ctx, region, &PeerChange{ChangeType: eraftpb.ConfChangeType_AddNode, Peer: member})
	}
	for _, step := range []func(context.Context, *Store) error{m.Remove, add, promote} {
		if err := m.Try(ctx, step, stores...); err != nil {
			return err
		}
	}
	return nil
}
