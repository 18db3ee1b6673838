package plan

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Ahead is a peer whose data hold entries that its own raft log does not have: TiKV had applied them early, see
// tikv.EarlyApply, and the cut fell before its log was written.
type Ahead struct {
	Region  cluster.RegionID `json:"region"`
	Store   cluster.StoreID  `json:"store"`
	Applied uint64           `json:"applied"` // index of the last entry in its data
}

// String names the replica.
func (a Ahead) String() string {
	return fmt.Sprintf("region %s on store %s, applied up to index %d", a.Region, a.Store, a.Applied)
}

// aheadSet is the peers that are ahead, by region and store.
type aheadSet map[uint64]map[cluster.StoreID]uint64

func newAheadSet(list []Ahead) aheadSet {
	if len(list) == 0 {
		return nil
	}
	set := aheadSet{}
	for _, a := range list {
		id := uint64(a.Region)
		if set[id] == nil {
			set[id] = map[cluster.StoreID]uint64{}
		}
		set[id][a.Store] = a.Applied
	}
	return set
}

// ahead reports whether peer i of the region at hand is ahead of its own log.
func (c *choices) ahead(i int) bool {
	_, found := c.early[c.row[i].region][c.stores[c.on[i]]]
	return found
}

// addAffected notes the peers whose data are ahead of the log that leads the region at hand: they skip each of its
// entries up to there. One that is ahead of its own log alone gets the same entries that it has applied. Those that are
// known to be affected stay so while the leader's log grows.
func (c *choices) addAffected(best *peerRow) {
	for _, on := range c.on {
		store := c.stores[on]
		applied, found := c.early[best.region][store]
		if found && (c.certain || applied > best.index) {
			c.affected = append(c.affected,
				Ahead{Region: cluster.RegionID(best.region), Store: store, Applied: applied})
		}
	}
}

// takeAffected notes the affected peers of the planned regions. What cannot be made good by their other replicas is
// Corrupt: a region of which no replica is left without them, one that lacks a replica already, as those that are left
// may not be a quorum, and one whose peers disagree about the version, as an affected peer may have made a region that
// no log has.
func (p *Plan) takeAffected(c *choices) error {
	if len(c.affected) == 0 {
		return nil
	}
	planned, count := make(map[cluster.RegionID]*Leader, len(p.Leaders)), map[cluster.RegionID]int{}
	for i := range p.Leaders {
		planned[p.Leaders[i].Region] = &p.Leaders[i]
	}
	for _, a := range c.affected {
		if planned[a.Region] != nil {
			p.Affected = append(p.Affected, a)
			count[a.Region]++
		}
	}
	degraded, uneven := setOf(p.Degraded), setOf(p.Uneven)
	var many, few, split []string
	for _, a := range p.Affected {
		switch {
		case count[a.Region] >= planned[a.Region].Replicas:
			many = append(many, a.String())
		case degraded[a.Region]:
			few = append(few, a.String())
		case uneven[a.Region]:
			split = append(split, a.String())
		}
	}
	switch {
	case len(many) > 0:
		return corruptAhead("every replica has data that no log of the backup has: " + failure.List(many))
	case len(few) > 0:
		return corruptAhead(
			"a replica is missing, and another has data that no log of the backup has: " + failure.List(few))
	case len(split) > 0:
		return corruptAhead(
			"a replica has data that no log of the backup has, and the replicas disagree about the region's keys: " +
				failure.List(split))
	}
	return nil
}

// Quorum is how many of a region's replicas decide.
func Quorum(replicas int) int { return replicas/2 + 1 }

func corruptAhead(text string) error {
	return failure.New(failure.Corrupt, "plan recovery", "", "%s", text).
		WithHint("restore another backup; TiKV applies early since 8.2: take backups with " +
			"raftstore.max-apply-unpersisted-log-limit at 0")
}

// AffectedLeaders lists the affected replicas that are to lead, as their log alone is the best.
func (p *Plan) AffectedLeaders() []Ahead {
	if len(p.Affected) == 0 {
		return nil
	}
	leads := make(map[cluster.RegionID]cluster.StoreID, len(p.Leaders))
	for i := range p.Leaders {
		leads[p.Leaders[i].Region] = p.Leaders[i].Store
	}
	var out []Ahead
	for _, a := range p.Affected {
		if leads[a.Region] == a.Store {
			out = append(out, a)
		}
	}
	return out
}

// affects reports whether the store's replica of the region is affected.
func (p *Plan) affects(region cluster.RegionID, store cluster.StoreID) bool {
	for _, a := range p.Affected {
		if a.Region == region && a.Store == store {
			return true
		}
	}
	return false
}
