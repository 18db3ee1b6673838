package tikvtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/metapb"
)

// Move is how PD moves a region's peer to another store: the new one comes as a learner, becomes a voter while the old one
// is demoted, in a joint state, and the old one is removed. Its methods are to be called in this order, and may be repeated
// after an error: a leader that has changed, or another command on its way.
type Move struct {
	Region   uint64
	From, To *Store
}

// Add adds the learner.
func (m *Move) Add(ctx context.Context, leader *Store) error {
	r, err := m.region(leader)
	if err != nil || peerOn(r, m.To.id) != nil {
		return err
	}
	id, err := leader.allocID(ctx)
	if err != nil {
		return err
	}
	return leader.ChangePeers(ctx, m.Region, &PeerChange{
		ChangeType: eraftpb.ConfChangeType_AddLearnerNode, Peer: &metapb.Peer{Id: id, StoreId: m.To.id, Role: metapb.PeerRole_Learner},
	})
}

// Enter enters the joint state, once the learner has the region.
func (m *Move) Enter(ctx context.Context, leader *Store) error {
	r, err := m.region(leader)
	if err != nil || isJoint(r) {
		return err
	}
	added, removed := peerOn(r, m.To.id), peerOn(r, m.From.id)
	if added == nil || removed == nil || m.To.peer(m.Region) == nil {
		return fmt.Errorf("move peer of region %d: store %d has no peer yet", m.Region, m.To.id)
	}
	return leader.ChangePeers(ctx, m.Region,
		&PeerChange{ChangeType: eraftpb.ConfChangeType_AddNode, Peer: added},
		&PeerChange{ChangeType: eraftpb.ConfChangeType_AddLearnerNode, Peer: removed})
}

// Leave leaves the joint state.
func (m *Move) Leave(ctx context.Context, leader *Store) error {
	r, err := m.region(leader)
	if err != nil || !isJoint(r) {
		return err
	}
	return leader.ChangePeers(ctx, m.Region)
}

// Remove removes the old peer.
func (m *Move) Remove(ctx context.Context, leader *Store) error {
	r, err := m.region(leader)
	if err != nil {
		return err
	}
	removed := peerOn(r, m.From.id)
	if removed == nil {
		return nil
	}
	return leader.ChangePeers(ctx, m.Region, &PeerChange{ChangeType: eraftpb.ConfChangeType_RemoveNode, Peer: removed})
}

func (m *Move) region(leader *Store) (*metapb.Region, error) {
	p := leader.peer(m.Region)
	if p == nil {
		return nil, fmt.Errorf("move peer: store %d has no peer of region %d", leader.id, m.Region)
	}
	return p.look().region, nil
}

// Run makes the whole move through the leaders among the stores, until ctx ends.
func (m *Move) Run(ctx context.Context, stores ...*Store) error {
	for _, step := range []func(context.Context, *Store) error{m.Add, m.Enter, m.Leave, m.Remove} {
		if err := m.Try(ctx, step, stores...); err != nil {
			return err
		}
	}
	return nil
}

// ErrRegionGone is for a move of a region that was merged into its neighbour.
var ErrRegionGone = errors.New("no store has a peer of the region any more")

// Try repeats one step at the region's leader until it succeeds. A leader that would be removed hands the region over.
func (m *Move) Try(ctx context.Context, step func(context.Context, *Store) error, stores ...*Store) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err, gone := fmt.Errorf("move peer: region %d has no leader", m.Region), true
		for _, s := range stores {
			p := s.peer(m.Region)
			if p == nil {
				continue
			}
			if gone = false; !p.look().ready() {
				continue
			}
			if s == m.From {
				err = m.handOver(p.look().region, stores)
				continue
			}
			trying, cancel := context.WithTimeout(ctx, time.Second)
			err = step(trying, s)
			cancel()
		}
		switch {
		case gone:
			return fmt.Errorf("move peer of region %d: %w", m.Region, ErrRegionGone)
		case err == nil:
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// handOver lets a voter that stays lead.
func (m *Move) handOver(r *metapb.Region, stores []*Store) error {
	for _, s := range stores {
		if to := peerOn(r, s.id); s != m.From && to != nil && to.Role == metapb.PeerRole_Voter {
			if err := m.From.TransferLeader(m.Region, s.id); err != nil {
				return err
			}
			break
		}
	}
	return fmt.Errorf("move peer of region %d: its leader hands it over", m.Region)
}
