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

// MakePlan chooses a leader for every region. replicas is how many voters a region has; a region that fewer
// than a majority of them hold is an error. It is pure, and the same metas give the same plan.
// All errors are of kind Corrupt and list the regions.
func MakePlan(metas Metas, replicas int) (*Plan, error) {
	if len(metas) == 0 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "no store reported")
	}
	plan := &Plan{Commands: make(map[cluster.StoreID][]tikv.Command, len(metas))}
	stores := sortedStores(metas)
	seats, err := plan.elect(stores, metas)
	if err != nil {
		return nil, err
	}
	if len(seats) == 0 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "no store holds a region")
	}
	seats = plan.dropOverlapped(seats)
	if err := quorum(seats, replicas); err != nil {
		return nil, err
	}
	if err := tile(seats); err != nil {
		return nil, err
	}
	load := balance(seats, len(stores))
	for i, store := range stores {
		plan.Commands[store] = make([]tikv.Command, 0, load[i])
	}
	plan.Leaders = make([]Leader, 0, len(seats))
	for i := range seats {
		l := seats[i].leader(stores)
		plan.Leaders = append(plan.Leaders, l)
		plan.Commands[l.Store] = append(plan.Commands[l.Store], tikv.Command{Region: l.Region, AsLeader: true})
	}
	return plan, nil
}

// leader is the seat as the plan shows it.
func (s *seat) leader(stores []cluster.StoreID) Leader {
	m := s.best
	return Leader{
		Region: m.Region, Store: stores[s.store], Version: m.Version, Term: m.LastLogTerm, Index: m.LastIndex,
		Keys: cluster.KeyRange{Start: m.Start, End: m.End}, Replicas: s.replicas,
	}
}

// quorum comes after the drop: a peer that has not applied a merge yet is left of a region that is gone.
func quorum(seats []seat, replicas int) error {
	var short []string
	for i := range seats {
		if n := seats[i].replicas; n < replicas/2+1 {
			short = append(short, fmt.Sprintf("region %s on %d store(s)", seats[i].best.Region, n))
		}
	}
	if len(short) == 0 {
		return nil
	}
	return failure.New(failure.Corrupt, "plan recovery", "", "%d regions are on fewer than %d of %d replicas, so committed writes may be lost: %s",
		len(short), replicas/2+1, replicas, list(short)).
		WithHint("restore another backup: a store's volumes are missing, or the hold of this one was broken")
}

// dropOverlapped sorts the seats by key and drops a region when one newer region covers its whole range;
// what is left must tile.
func (p *Plan) dropOverlapped(seats []seat) []seat {
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(bytes.Compare(a.best.Start, b.best.Start), cmp.Compare(a.best.Region, b.best.Region))
	})
	kept := seats[:0]
	for _, s := range seats {
		for len(kept) > 0 && covers(s.best, kept[len(kept)-1].best) {
			p.Dropped = append(p.Dropped, kept[len(kept)-1].best.Region)
			kept = kept[:len(kept)-1]
		}
		if len(kept) > 0 && covers(kept[len(kept)-1].best, s.best) {
			p.Dropped = append(p.Dropped, s.best.Region)
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// covers reports whether newer has a higher version and all of older's range.
func covers(newer, older *tikv.RegionMeta) bool {
	if newer.Version <= older.Version || bytes.Compare(newer.Start, older.Start) > 0 {
		return false
	}
	return len(newer.End) == 0 || (len(older.End) > 0 && bytes.Compare(newer.End, older.End) >= 0)
}

func tile(seats []seat) error {
	ranges := make([]cluster.KeyRange, 0, len(seats))
	for i := range seats {
		ranges = append(ranges, cluster.KeyRange{Start: seats[i].best.Start, End: seats[i].best.End})
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

func sortedStores(metas Metas) []cluster.StoreID {
	ids := make([]cluster.StoreID, 0, len(metas))
	for id := range metas {
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
