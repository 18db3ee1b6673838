package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Rules is what a plan has to know besides the metas.
type Rules struct {
	Replicas int // voters of a region
	// Lost lists the stores that the plan does without. Every region must have a majority of its replicas on
	// the others.
	Lost []cluster.StoreID
	// Ahead lists the peers that are ahead of their own logs. AheadForSure means that they are affected by it, whatever
	// the logs are by now: they were compared before the regions got leaders.
	Ahead        []Ahead
	AheadForSure bool
}

// Leader is the peer that is to lead a region, and why it may.
type Leader struct {
	Region   cluster.RegionID
	Store    cluster.StoreID
	Version  uint64 // the newest that a peer has applied, and its range
	Term     uint64
	Index    uint64
	Keys     cluster.KeyRange
	Replicas int    // stores that hold the region
	peers    uint32 // where they begin in Plan.peers
}

// Overlap is a region whose keys a newer one holds.
type Overlap struct {
	Region    cluster.RegionID
	Version   uint64
	Keys      cluster.KeyRange
	By        cluster.RegionID
	ByVersion uint64
}

// String names both regions.
func (o Overlap) String() string {
	return fmt.Sprintf("region %s %s of version %d is older than region %s of version %d", o.Region, o.Keys, o.Version,
		o.By, o.ByVersion)
}

// Tombstone is a peer that its store has destroyed.
type Tombstone struct {
	Region      cluster.RegionID
	Store       cluster.StoreID
	Keys        cluster.KeyRange
	term, index uint64
}

// Plan has the store that leads each region.
type Plan struct {
	Leaders  []Leader // in key order, covering the key space exactly once
	Commands map[cluster.StoreID][]tikv.Command
	AllocID  uint64 // the largest store, region or peer id seen, those of lost stores included
	Peers    int
	// Lagging counts peers whose log is shorter than their leader's: they are brought up by raft.
	Lagging int
	Behind  uint64 // log entries that the last of them lacks
	// Uneven lists regions whose peers disagree about the version: a split or merge fell into the cut, so
	// the hold had not held.
	Uneven []cluster.RegionID
	// Ambiguous lists regions with a peer of a lower term that has more log than the leader. TiKV 8.5 reports
	// the term of the vote and not that of the log, so the others may not vote for the leader.
	Ambiguous []cluster.RegionID
	// Crowded lists regions with more peers than replicas: one is a learner, a witness, or left of a replica that was
	// moved away, which the metas do not show. A learner that is asked to campaign does so (raft-rs, src/raft.rs: hup()
	// does not ask promotable, which only the election timer and MsgTimeoutNow do), and the voters vote for it if its
	// log is as good as theirs: it leads until the restart out of recovery mode. A witness has a lower priority, and
	// wins only with a longer log; it has no data, and another peer is asked to lead then. What is left of a moved
	// replica never wins. No peer campaigns while it has a change of its region's peers to apply.
	Crowded []cluster.RegionID
	// Degraded lists regions that have a majority of their replicas, but not all.
	Degraded []cluster.RegionID
	Fewest   int // replicas that the region with the fewest has
	// Dropped lists regions whose range a newer region has.
	Dropped    []Overlap
	Tombstones []Tombstone
	// Affected lists the replicas whose data are ahead of the log that leads their region, by region and store: they
	// skip its entries, the flashback's own among them, and have to be replaced.
	Affected []Ahead
	Lost     []cluster.StoreID

	stores []cluster.StoreID
	peers  []uint16 // of each region, the stores that hold it as indexes into stores, the best log first
}

// Make chooses a leader for every region. It is pure, and the same metas give the same plan. What cannot be
// proven is an error, of kind Corrupt and with the regions named: the key space is covered exactly once, every
// region is on a majority of its replicas, and no tombstone knows more than the peers that are left.
func Make(ctx context.Context, metas *Metas, rules Rules) (*Plan, error) {
	stores := metas.ids()
	if len(stores) == 0 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "no store reported")
	}
	tables := make([]*StoreMetas, len(stores))
	for i, id := range stores {
		tables[i] = metas.stores[id].inOrder()
	}
	c, err := chooseLeaders(ctx, stores, tables, rules)
	if err != nil {
		return nil, err
	}
	if len(c.regions) == 0 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "no store holds a region")
	}
	plan := &Plan{Lost: rules.Lost, AllocID: largestID(tables, stores, rules.Lost)}
	plan.addTombstones(c, tables, metas.keys)
	order := byStart(c.regions, metas.keys)
	tiled := tiles(c.regions, order)
	if !tiled {
		order = plan.dropOutdated(c.regions, order, metas.keys)
		tiled = tiles(c.regions, order)
	}
	if err := plan.quorum(c, tables, order, rules); err != nil {
		return nil, err
	}
	if err := plan.refuseNewerTombstones(c, order); err != nil {
		return nil, err
	}
	if !tiled {
		return nil, plan.tile(c.regions, order, metas.keys)
	}
	plan.fill(c, order, metas.keys)
	if err := plan.takeAffected(c); err != nil {
		return nil, err
	}
	return plan, nil
}

// largestID is the largest store, region or peer id.
func largestID(tables []*StoreMetas, stores ...[]cluster.StoreID) uint64 {
	largest := uint64(0)
	for _, t := range tables {
		largest = max(largest, t.largest)
	}
	for _, id := range slices.Concat(stores...) {
		largest = max(largest, uint64(id))
	}
	return largest
}

// fill shares the leaders among the stores and completes the plan.
func (p *Plan) fill(c *choices, order []uint32, keys *keyTable) {
	load := balance(c, order)
	p.Commands = make(map[cluster.StoreID][]tikv.Command, len(load))
	commands := make([][]tikv.Command, len(load))
	for i, n := range load {
		commands[i] = make([]tikv.Command, 0, n)
	}
	p.Leaders = make([]Leader, 0, len(order))
	for _, i := range order {
		s := &c.regions[i]
		p.Leaders = append(p.Leaders, Leader{
			Region: cluster.RegionID(s.region), Store: c.stores[s.store], Version: s.version, Term: s.term,
			Index: s.index,
			Keys:  s.keyRange(keys), Replicas: int(s.replicas), peers: s.may,
		})
		commands[s.store] = append(commands[s.store], tikv.Command{Region: cluster.RegionID(s.region), AsLeader: true})
	}
	p.stores, p.peers = c.stores, c.may
	p.Peers, p.Lagging, p.Behind = c.peers, c.lagging, c.behind
	p.Uneven, p.Ambiguous, p.Crowded = c.uneven, c.ambiguous, c.crowded
	for i, id := range c.stores {
		p.Commands[id] = commands[i]
	}
	slices.Sort(p.Degraded)
}

// joined is the ids as a message shows them.
func joined(ids []cluster.StoreID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = id.String()
	}
	return strings.Join(words, ", ")
}
