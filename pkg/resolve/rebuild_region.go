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

// identify notes the peers that have to go, and writes them down before the first is removed: afterwards the store's peer is
// another one. A region that has split off a listed one has its replica's data, so that it is listed, too.
func (w *rebuild) identify(ctx context.Context, regions []cluster.Region) error {
	was, found := w.r.early.Rebuild, false
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
	w.r.early = &EarlyApply{Affected: w.r.early.Affected, Rebuild: list}
	return w.r.noteRebuild(ctx)
}

// noteRebuild writes the list into the progress, of this run or of the one that it resumes.
func (r *Resolver) noteRebuild(ctx context.Context) error {
	p, found, err := r.cfg.Progress.Load(ctx)
	if err != nil {
		return failure.Annotate(err, "read progress", r.cfg.Cluster.String())
	}
	if !found {
		p = r.snapshot()
	}
	p.Run, p.EarlyApply = r.cfg.Run, r.early
	return failure.Annotate(r.save(ctx, p), "write down which peers are replaced", r.cfg.Cluster.String())
}

// left says what is missing until the replica is rebuilt; "" is nothing.
func (w *rebuild) left(p *Replica, region *cluster.Region) string {
	switch {
	case region == nil:
		return "PD does not know the region"
	case p.Peer != 0 && holds(region, p):
		return "PD is to remove its peer"
	case region.Leader.Store == 0:
		return "the region has no leader"
	case region.Joint:
		return "the region's peers change"
	case w.healthy(region) < max(p.Voters, plan.Quorum(w.r.cfg.Replicas)):
		return fmt.Sprintf("%d of %d peers are healthy", w.healthy(region), p.Voters)
	}
	return ""
}

// remove has PD remove the replica's peer, if the region can do without it: a quorum of its replicas is healthy beside it, and
// no other of its peers is being replaced.
func (w *rebuild) remove(ctx context.Context, region *cluster.Region, p *Replica) error {
	switch {
	case region.Leader.Store == 0 || region.Joint || len(voters(region)) < p.Voters:
		return nil
	case w.healthy(region) < plan.Quorum(w.r.cfg.Replicas):
		return nil
	case time.Since(w.asked[region.ID]) < removeAgain:
		return nil
	}
	err := w.r.pd.RemovePeer(ctx, region.ID, p.Store)
	if failure.Is(err, failure.Limited) { // the region has an operator, or PD's store limit is reached
		return nil
	}
	if err == nil {
		w.asked[region.ID] = time.Now()
	}
	return err
}

// healthy counts the region's voters that are up to date and have no data that no log has.
func (w *rebuild) healthy(region *cluster.Region) int {
	n := 0
	for _, v := range voters(region) {
		p := find(w.r.early.Rebuild, region.ID, v.Store)
		old := p != nil && p.Peer == v.ID
		if !old && !v.Witness && !slices.Contains(region.Pending, v.ID) && !slices.Contains(region.DownPeer, v.ID) {
			n++
		}
	}
	return n
}

// holds reports whether the replica's old peer is still one of the region's.
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
