package resolve

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// identify records the peers to remove before the first is removed: afterwards the store's peer is another one. A
// region that has split off a listed one has its replica's data, and is listed, too.
func (w *rebuild) identify(ctx context.Context, regions []cluster.Region) error {
	was, found := w.record.early.Rebuild, false
	list := slices.Clone(was)
	for i := range regions {
		region := &regions[i]
		for _, of := range was {
			if !overlap(region.Keys, of.Keys) {
				continue
			}
			peer := peerOn(region, of.Store)
			listed := find(list, region.ID, of.Store)
			switch {
			case peer == nil || listed != nil && listed.Peer != 0:
				continue
			case listed == nil:
				list = append(list, Replica{Region: region.ID, Store: of.Store, Keys: region.Keys})
				listed = &list[len(list)-1]
			}
			listed.Peer, listed.Voters, found = peer.ID, len(voters(region)), true
		}
	}
	if !found {
		return nil
	}
	// of which some are left
	return w.record.noteEarly(ctx, &EarlyApply{Affected: w.record.early.Affected, Rebuild: list})
}

// lacks returns what the region still lacks to have all its peers; "" if nothing.
func (w *rebuild) lacks(p *Replica, region *cluster.Region) string {
	switch {
	case region == nil:
		return "PD does not know the region"
	case region.Leader.Store == 0:
		return "the region has no leader"
	case region.Joint:
		return "the region's peers change"
	case w.healthy(region) < max(p.Voters, plan.Quorum(w.cfg.Replicas)):
		return fmt.Sprintf("%d of %d peers are healthy", w.healthy(region), p.Voters)
	}
	return ""
}

// spare returns why the region cannot do without the replica now; "" if it can: a majority of the other voters is up,
// and one has no data that no log has.
func (w *rebuild) spare(region *cluster.Region, p *Replica) string {
	others := slices.DeleteFunc(voters(region), func(v cluster.Peer) bool { return v.ID == p.Peer })
	up := len(slices.DeleteFunc(slices.Clone(others), func(v cluster.Peer) bool { return !isUpToDate(region, v) }))
	switch {
	case region.Leader.Store == 0:
		return "the region has no leader"
	case region.Joint:
		return "the region's peers change"
	case w.healthy(region) == 0:
		return "no other peer is healthy"
	case up < len(others)/2+1:
		return fmt.Sprintf("%d of its %d other peers are healthy", up, len(others))
	}
	return ""
}

// remove has PD remove the replica's peer.
func (w *rebuild) remove(ctx context.Context, region *cluster.Region, p *Replica) error {
	if time.Since(w.asked[p.Peer]) < removeAgain {
		return nil
	}
	err := w.pd.RemovePeer(ctx, region.ID, p.Store)
	if failure.Is(err, failure.Limited) { // the region has an operator, or PD's store limit is exhausted
		return nil
	}
	if err == nil {
		w.asked[p.Peer] = time.Now()
	}
	return err
}

// healthy counts the region's voters that are up to date and not ahead.
func (w *rebuild) healthy(region *cluster.Region) int {
	n := 0
	for _, v := range voters(region) {
		p := find(w.record.early.Rebuild, region.ID, v.Store)
		if old := p != nil && p.Peer == v.ID; !old && isUpToDate(region, v) {
			n++
		}
	}
	return n
}

// isUpToDate reports whether the peer is up and has the region's log.
func isUpToDate(region *cluster.Region, v cluster.Peer) bool {
	return !v.Witness && !slices.Contains(region.Pending, v.ID) && !slices.Contains(region.DownPeer, v.ID)
}

// holds reports whether the replica's old peer is still in the region.
func holds(region *cluster.Region, p *Replica) bool {
	return slices.ContainsFunc(region.Peers, func(q cluster.Peer) bool { return q.Store == p.Store && q.ID == p.Peer })
}

func voters(region *cluster.Region) []cluster.Peer {
	return slices.DeleteFunc(slices.Clone(region.Peers), func(p cluster.Peer) bool { return p.Learner })
}

func peerOn(region *cluster.Region, store cluster.StoreID) *cluster.Peer {
	i := slices.IndexFunc(region.Peers, func(p cluster.Peer) bool { return p.Store == store })
	if i < 0 {
		return nil
	}
	return &region.Peers[i]
}

// overlap reports whether two ranges of encoded keys have a key in common.
func overlap(a, b cluster.KeyRange) bool {
	before := func(x, y cluster.KeyRange) bool { return len(x.End) > 0 && bytes.Compare(x.End, y.Start) <= 0 }
	return !before(a, b) && !before(b, a)
}
