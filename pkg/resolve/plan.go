package resolve

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Metas is what every store said about its peers.
type Metas map[cluster.StoreID][]tikv.RegionMeta

// Leader is the peer that is to lead a region, and why it may.
type Leader struct {
	Region   cluster.RegionID
	Store    cluster.StoreID
	Version  uint64
	Term     uint64
	Index    uint64
	Keys     cluster.KeyRange
	Replicas int // stores that hold the region
}

// Plan says which store leads which region.
type Plan struct {
	Leaders  []Leader // in key order, covering the key space exactly once
	Commands map[cluster.StoreID][]tikv.Command
	AllocID  uint64 // the largest store, region or peer id seen
	Peers    int
	// Lagging counts peers whose log is shorter than their leader's: they are brought up by raft.
	Lagging int
	// Uneven lists regions whose peers disagree about the version: a split or merge fell into the cut, so
	// the hold had not held.
	Uneven []cluster.RegionID
	// Dropped lists regions whose range a newer region covers.
	Dropped []cluster.RegionID
}

// candidate is one peer of one region.
type candidate struct {
	store cluster.StoreID
	meta  tikv.RegionMeta
}

// better orders candidates by last log term, then last index, then commit index.
func better(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(b.meta.LastLogTerm, a.meta.LastLogTerm),
		cmp.Compare(b.meta.LastIndex, a.meta.LastIndex),
		cmp.Compare(b.meta.CommitIndex, a.meta.CommitIndex),
	)
}

// MakePlan chooses a leader for every region. replicas is how many voters a region has; a region that fewer
// than a majority of them hold is an error. It is pure, and the same metas give the same plan.
// All errors are of kind Corrupt and list the regions.
func MakePlan(metas Metas, replicas int) (*Plan, error) {
	if len(metas) == 0 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "no store reported")
	}
	regions, plan := group(metas)
	if len(regions) == 0 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "no store holds a region")
	}
	if err := quorum(regions, replicas); err != nil {
		return nil, err
	}
	plan.elect(regions, metas)
	plan.dropOverlapped()
	if err := plan.tile(); err != nil {
		return nil, err
	}
	plan.command(metas)
	return plan, nil
}

// group sorts the peers by region and counts what does not depend on the choice.
func group(metas Metas) (map[cluster.RegionID][]candidate, *Plan) {
	plan := &Plan{Commands: map[cluster.StoreID][]tikv.Command{}}
	regions := map[cluster.RegionID][]candidate{}
	for _, store := range sortedStores(metas) {
		plan.AllocID = max(plan.AllocID, uint64(store))
		for _, m := range metas[store] {
			plan.AllocID = max(plan.AllocID, uint64(m.Region), uint64(m.PeerID))
			if m.Tombstone {
				continue
			}
			plan.Peers++
			regions[m.Region] = append(regions[m.Region], candidate{store: store, meta: m})
		}
	}
	return regions, plan
}

func quorum(regions map[cluster.RegionID][]candidate, replicas int) error {
	var short []string
	for _, id := range sortedRegions(regions) {
		if n := len(regions[id]); n < replicas/2+1 {
			short = append(short, fmt.Sprintf("region %s on %d store(s)", id, n))
		}
	}
	if len(short) == 0 {
		return nil
	}
	return failure.New(failure.Corrupt, "plan recovery", "", "%d regions are on fewer than %d of %d replicas, so committed writes may be lost: %s",
		len(short), replicas/2+1, replicas, list(short)).
		WithHint("restore another backup: a store's volumes are missing, or the hold of this one was broken")
}

// elect chooses the best peer of each region; ties go to the store that leads the least so far.
func (p *Plan) elect(regions map[cluster.RegionID][]candidate, metas Metas) {
	led := make(map[cluster.StoreID]int, len(metas))
	for _, id := range sortedRegions(regions) {
		peers := regions[id]
		slices.SortFunc(peers, func(a, b candidate) int { return cmp.Or(better(a, b), cmp.Compare(a.store, b.store)) })
		best := peers[0]
		for _, c := range peers {
			if better(best, c) == 0 && led[c.store] < led[best.store] {
				best = c
			}
			if c.meta.Version != peers[0].meta.Version && !slices.Contains(p.Uneven, id) {
				p.Uneven = append(p.Uneven, id)
			}
			if better(peers[0], c) != 0 {
				p.Lagging++
			}
		}
		led[best.store]++
		p.Leaders = append(p.Leaders, Leader{
			Region: id, Store: best.store, Version: best.meta.Version, Term: best.meta.LastLogTerm, Index: best.meta.LastIndex,
			Keys:     cluster.KeyRange{Start: best.meta.Start, End: best.meta.End},
			Replicas: len(peers),
		})
	}
	slices.SortFunc(p.Leaders, func(a, b Leader) int {
		return cmp.Or(bytes.Compare(a.Keys.Start, b.Keys.Start), cmp.Compare(a.Region, b.Region))
	})
}

// dropOverlapped drops a region when one newer region covers its whole range; what is left must tile.
func (p *Plan) dropOverlapped() {
	kept := p.Leaders[:0:0]
	for _, l := range p.Leaders {
		for len(kept) > 0 && overlaps(kept[len(kept)-1], l) && covers(l, kept[len(kept)-1]) {
			p.Dropped = append(p.Dropped, kept[len(kept)-1].Region)
			kept = kept[:len(kept)-1]
		}
		if len(kept) > 0 && overlaps(kept[len(kept)-1], l) && covers(kept[len(kept)-1], l) {
			p.Dropped = append(p.Dropped, l.Region)
			continue
		}
		kept = append(kept, l)
	}
	p.Leaders = kept
}

func overlaps(a, b Leader) bool {
	return len(a.Keys.End) == 0 || bytes.Compare(a.Keys.End, b.Keys.Start) > 0
}

// covers reports whether newer has a higher version and all of older's range.
func covers(newer, older Leader) bool {
	if newer.Version <= older.Version || bytes.Compare(newer.Keys.Start, older.Keys.Start) > 0 {
		return false
	}
	return len(newer.Keys.End) == 0 || (len(older.Keys.End) > 0 && bytes.Compare(newer.Keys.End, older.Keys.End) >= 0)
}

func (p *Plan) tile() error {
	ranges := make([]cluster.KeyRange, 0, len(p.Leaders))
	for _, l := range p.Leaders {
		ranges = append(ranges, l.Keys)
	}
	err := cluster.Tile(ranges, 5)
	if err == nil {
		return nil
	}
	return &failure.Error{
		Op: "plan recovery", Kind: failure.Corrupt, Err: err,
		Hint: "restore another backup: a split or merge fell into the cut of this one, and going on would crash the stores",
	}
}

// command lists, for each store that reported, the regions that it leads.
func (p *Plan) command(metas Metas) {
	for store := range metas {
		p.Commands[store] = nil
	}
	for _, l := range p.Leaders {
		p.Commands[l.Store] = append(p.Commands[l.Store], tikv.Command{Region: l.Region, AsLeader: true})
	}
}

func sortedStores(metas Metas) []cluster.StoreID {
	ids := make([]cluster.StoreID, 0, len(metas))
	for id := range metas {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func sortedRegions(regions map[cluster.RegionID][]candidate) []cluster.RegionID {
	ids := make([]cluster.RegionID, 0, len(regions))
	for id := range regions {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// list shows the first few of many.
func list(items []string) string {
	const most = 10
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return strings.Join(items[:most], ", ") + fmt.Sprintf(", and %d more", len(items)-most)
}
