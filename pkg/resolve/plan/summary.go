package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Summary is a plan as a dry run prints it. Lists of regions are cut after the first few; their counts are not.
type Summary struct {
	Regions int          `json:"regions"`
	Peers   int          `json:"peers"`
	Stores  []StoreShare `json:"stores"` // by id
	// Imbalance is by how many percent the store with the failure.MaxListed leaders has more than the one with the
	// fewest. Only stores with equally good logs can share, so it is small unless the logs differ.
	Imbalance float64 `json:"imbalancePercent"`
	AllocID   uint64  `json:"allocID"`

	Lagging int    `json:"laggingPeers"`      // peers with a shorter log than their leader's
	Behind  uint64 `json:"longestLagEntries"` // log entries that the last of them lacks

	Overlaps   Lines    `json:"overlaps"`   // regions whose keys newer ones hold
	Tombstones Lines    `json:"tombstones"` // destroyed peers, which are left as they are
	Uneven     Regions  `json:"uneven"`     // peers disagree about the version
	Ambiguous  Regions  `json:"doubtful"`   // the metas do not show for sure whose log is the best
	Crowded    Regions  `json:"crowded"`    // more peers than replicas: a learner, or one that was moved away
	Degraded   Regions  `json:"degraded"`   // a majority of the replicas, but not all
	Fewest     int      `json:"fewestReplicas"`
	Without    []uint64 `json:"withoutStores,omitempty"`
	// Lost describes what a recovery by this plan gives up; it is empty if that is nothing. Writes after
	// the backup ts are always given up, and are not among these.
	Lost []string `json:"lost"`
}

// StoreShare is what one store leads.
type StoreShare struct {
	Store   cluster.StoreID `json:"store"`
	Leaders int             `json:"leaders"`
}

// Regions is a number of regions and the first of them.
type Regions struct {
	Count int                `json:"count"`
	First []cluster.RegionID `json:"first,omitempty"`
}

// Lines is a number of things and the first of them, in words.
type Lines struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"`
}

// Summary is the plan for people: counts, and the first few of each list.
func (p *Plan) Summary() Summary {
	s := Summary{
		Regions: len(p.Leaders), Peers: p.Peers, AllocID: p.AllocID, Lagging: p.Lagging, Behind: p.Behind,
		Uneven: regions(p.Uneven), Ambiguous: regions(p.Ambiguous), Crowded: regions(p.Crowded),
		Degraded: regions(p.Degraded), Fewest: p.Fewest,
		Overlaps: Lines{Count: len(p.Dropped)}, Tombstones: Lines{Count: len(p.Tombstones)}, Lost: []string{},
	}
	for store, commands := range p.Commands {
		s.Stores = append(s.Stores, StoreShare{Store: store, Leaders: len(commands)})
	}
	slices.SortFunc(s.Stores, func(a, b StoreShare) int { return cmp.Compare(a.Store, b.Store) })
	low, high := len(p.Leaders), 0
	for _, share := range s.Stores {
		low, high = min(low, share.Leaders), max(high, share.Leaders)
	}
	s.Imbalance = 100 * (float64(high) - float64(low)) / float64(max(low, 1))
	for _, o := range p.Dropped[:min(failure.MaxListed, len(p.Dropped))] {
		s.Overlaps.First = append(s.Overlaps.First, o.String())
	}
	for _, t := range p.Tombstones[:min(failure.MaxListed, len(p.Tombstones))] {
		s.Tombstones.First = append(s.Tombstones.First,
			fmt.Sprintf("region %s %s on store %s", t.Region, t.Keys, t.Store))
	}
	for _, id := range p.Lost {
		s.Without = append(s.Without, uint64(id))
	}
	s.Lost = p.losses(s.Lost)
	return s
}

// losses describes what is given up.
func (p *Plan) losses(out []string) []string {
	if n := len(p.Lost); n > 0 {
		out = append(out,
			fmt.Sprintf("the replicas of store %s: PD has to make them again from the others", joined(p.Lost)))
	}
	if n := len(p.Dropped); n > 0 {
		out = append(out,
			fmt.Sprintf("the peers of %d older regions, whose keys newer regions hold: they get no leader", n))
	}
	return out
}

func regions(ids []cluster.RegionID) Regions {
	return Regions{Count: len(ids), First: slices.Clone(ids[:min(failure.MaxListed, len(ids))])}
}
