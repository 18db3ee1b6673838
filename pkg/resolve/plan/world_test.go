package plan_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// entry is one of a raft log: data, or one of the admin commands.
type entry struct {
	term  uint64
	split int              // the key
	child cluster.RegionID // of a split
	merge cluster.RegionID // the source
	add   cluster.StoreID  // gets a learner
	swap  cluster.StoreID  // leaves, and the learner becomes a voter
	peer  cluster.PeerID   // of add
	write write            // of data
}

func (e entry) admin() bool { return e.split != 0 || e.merge != 0 || e.add != 0 || e.swap != 0 }

// replica is what a store holds of a region.
type replica struct {
	vote       uint64 // the hard state's term
	log        []entry
	applied    int
	version    uint64
	start, end int
	peer       cluster.PeerID // the largest it knows of
}

func (r *replica) clone() *replica {
	c := *r
	c.log = slices.Clone(r.log)
	return &c
}

// upToDate is raft's rule for a vote: the candidate's log is at least as good as the voter's.
func upToDate(candidate, voter *replica) bool {
	return cmp.Or(cmp.Compare(last(candidate.log), last(voter.log)), cmp.Compare(len(candidate.log), len(voter.log))) >= 0
}

func last(log []entry) uint64 { return log[len(log)-1].term }

// group is one region: its raft group as an observer who sees all would know it.
type group struct {
	id      cluster.RegionID
	voters  []cluster.StoreID
	learner cluster.StoreID // 0 if there is none
	leader  cluster.StoreID // 0 while there is none
	founded bool            // there was a leader
	term    uint64
	commit  int
	// configured is up to where the changes of members are done.
	configured int
	replicas   map[cluster.StoreID]*replica // stale ones too
	base       rows                         // what a split gave it
	ruled      map[uint64]cluster.StoreID   // who led in which term
}

func (g *group) leading() *replica { return g.replicas[g.leader] }

// busy reports whether the leader has not applied its whole log, so that an admin command may be on its way.
func (g *group) busy() bool { return g.leader == 0 || g.leading().applied < len(g.leading().log) }

// changing reports whether an admin command is on its way.
func (g *group) changing() bool {
	return g.leader == 0 || slices.ContainsFunc(g.leading().log[g.leading().applied:], entry.admin)
}

// members are the stores that the leader replicates to.
func (g *group) members() []cluster.StoreID {
	if g.learner != 0 {
		return append(slices.Clone(g.voters), g.learner)
	}
	return g.voters
}

// world is a cluster of raft groups.
type world struct {
	t      *rapid.T
	rng    *rand.Rand // by a seed that rapid draws: its own numbers are small ones for the most part
	stores []cluster.StoreID
	groups map[cluster.RegionID]*group
	merged map[cluster.RegionID]*merged
	nextID uint64
	// resting are regions to which nothing happens by itself.
	resting  map[cluster.RegionID]bool
	happened happened
}

// merged is a region that another takes in: its replicas are there until their stores have applied the merge.
type merged struct {
	*group
	into    *group
	end     int
	version uint64
	rows    rows
}

func newWorld(t *rapid.T) *world {
	seed := rapid.Uint64().Draw(t, "seed")
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, seed)), groups: map[cluster.RegionID]*group{}, merged: map[cluster.RegionID]*merged{}, nextID: 100, resting: map[cluster.RegionID]bool{}, happened: happened{}}
	for s := range rapid.IntRange(3, 5).Draw(t, "stores") {
		w.stores = append(w.stores, cluster.StoreID(s+1))
	}
	g := w.group(w.id(), w.stores[:3], 1)
	g.founded = true
	for _, s := range g.voters {
		g.replicas[s] = &replica{vote: 5, log: []entry{{term: 5}}, applied: 1, version: 1, peer: 3}
	}
	return w
}

func (w *world) id() cluster.RegionID { w.nextID++; return cluster.RegionID(w.nextID) }

func (w *world) group(id cluster.RegionID, voters []cluster.StoreID, leader cluster.StoreID) *group {
	g := &group{id: id, voters: slices.Clone(voters), leader: leader, term: 5, commit: 1, replicas: map[cluster.StoreID]*replica{}, ruled: map[uint64]cluster.StoreID{}}
	w.groups[id] = g
	return g
}

// between is a number from low to high.
func (w *world) between(low, high int) int { return low + w.rng.IntN(high-low+1) }

func (w *world) shuffled(stores []cluster.StoreID) []cluster.StoreID {
	out := slices.Clone(stores)
	w.rng.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
	return out
}

func pick[T any](w *world, from []T) T { return from[w.rng.IntN(len(from))] }

// step lets something happen to a region; without admin, only what a held cluster does.
func (w *world) step(admin bool) {
	g := w.groups[pick(w, slices.Sorted(maps.Keys(w.groups)))]
	op := w.between(0, 13)
	switch {
	case admin && op == 12 && w.between(0, 3) == 0: // of a cluster that is held, a restart ends the hold
		w.restart(pick(w, w.stores))
	case w.resting[g.id]:
	case op <= 1 && g.leader != 0:
		g.propose(entry{})
	case op <= 5 && g.leader != 0:
		w.replicate(g, pick(w, g.members()), false)
	case op <= 8:
		w.apply(g, pick(w, slices.Sorted(maps.Keys(g.replicas))), false)
	case !admin || g.changing():
		w.elect(g)
	case op == 9:
		w.split(g)
	case op == 10:
		w.merge(g)
	case op == 11:
		w.moveReplica(g)
	default:
		w.elect(g)
	}
}

func (g *group) propose(e entry) {
	e.term = g.term
	g.leading().log = append(g.leading().log, e)
}

// replicate sends the follower a part of the leader's log, or all, and lets the leader commit. A store that has
// nothing of the region gets a snapshot.
func (w *world) replicate(g *group, to cluster.StoreID, all bool) {
	l, f := g.leading(), g.replicas[to]
	switch {
	case to == g.leader:
	case f == nil:
		if w.makeRoom(to, l) {
			g.replicas[to] = l.clone()
			g.replicas[to].log = g.replicas[to].log[:l.applied]
		}
	default:
		same := 0
		for same < min(len(f.log), len(l.log)) && f.log[same] == l.log[same] {
			same++
		}
		n := len(l.log)
		if !all {
			n = w.between(same, n)
		}
		f.vote = g.term
		if n > same || len(f.log) == same {
			f.log = append(slices.Clone(f.log[:same]), l.log[same:n]...)
		}
	}
	g.advance()
}

// makeRoom destroys what is left of older regions where a snapshot of l comes. It reports false if a region that
// lives there has to catch up first, or one that has yet to take in what is there: TiKV drops messages of a region that
// overlaps another one, unless it is the one that takes that in (maybe_create_peer_internal in fsm/store.rs).
func (w *world) makeRoom(on cluster.StoreID, l *replica) bool {
	for _, g := range w.groups {
		if r := g.replicas[on]; r != nil && overlaps(r, l) {
			if slices.Contains(g.members(), on) {
				return false
			}
			delete(g.replicas, on)
		}
	}
	for _, m := range w.merged {
		if r := m.replicas[on]; r != nil && overlaps(r, l) {
			if m.into.replicas[on] != nil && slices.Contains(m.into.members(), on) {
				return false
			}
			delete(m.replicas, on)
		}
	}
	return true
}

// advance commits what a majority of the voters holds of the leader's term, and of the voters to come too while
// a change of them is on its way.
func (g *group) advance() {
	log := g.leading().log
	for n := len(log); n > g.commit && log[n-1].term == g.term; n-- {
		ok := g.majority(g.voters, n)
		for _, e := range log[min(g.configured, n):n] {
			if e.swap != 0 {
				ok = ok && g.majority(slices.DeleteFunc(slices.Clone(g.members()), func(s cluster.StoreID) bool { return s == e.swap }), n)
			}
		}
		if ok {
			g.commit = n
			return
		}
	}
}

// majority reports whether most of the stores hold n entries of the leader's log.
func (g *group) majority(stores []cluster.StoreID, n int) bool {
	have := 0
	for _, s := range stores {
		if r := g.replicas[s]; r != nil && len(r.log) >= n && r.log[n-1] == g.leading().log[n-1] {
			have++
		}
	}
	return have > len(stores)/2
}

func (w *world) elect(g *group) { w.electOn(g, pick(w, g.voters)) }

// electOn lets a voter be elected by the others, if they vote for it.
func (w *world) electOn(g *group, s cluster.StoreID) {
	c, votes := g.replicas[s], []*replica(nil)
	if c == nil {
		return
	}
	// It knows the changes of members that it has applied, although no leader has yet.
	for g.configured < c.applied {
		g.configured++
		w.configure(g, c.log[g.configured-1])
	}
	if g.replicas[s] == nil || !slices.Contains(g.voters, s) {
		return
	}
	for _, v := range g.voters {
		if r := g.replicas[v]; r != nil && upToDate(c, r) {
			votes = append(votes, r)
		}
	}
	if len(votes) <= len(g.voters)/2 {
		return
	}
	if g.founded && g.leader != s {
		w.happened.note(leaderChanged, g.id)
	}
	g.leader, g.founded, g.term = s, true, g.term+1
	g.ruled[g.term] = s
	for _, v := range votes {
		v.vote = g.term
	}
	g.propose(entry{})
}

func (w *world) split(g *group) {
	l := g.leading()
	end := l.end
	if end == 0 {
		end = 40
	}
	if l.start+1 < end {
		at := w.between(l.start+1, end-1)
		g.propose(entry{split: at, child: w.id()})
	}
}

// merge takes the next region into g, if all of both are where the leaders are.
func (w *world) merge(g *group) {
	for _, id := range slices.Sorted(maps.Keys(w.groups)) {
		source := w.groups[id]
		if source.changing() || source.leading().start != g.leading().end || source.leading().start == 0 ||
			!slices.Equal(slices.Sorted(slices.Values(source.members())), slices.Sorted(slices.Values(g.members()))) {
			continue
		}
		w.catchUp(source)
		for _, s := range source.members() {
			if r := source.replicas[s]; r == nil || !slices.Equal(r.log, source.leading().log) || r.applied < len(r.log) {
				return
			}
		}
		delete(w.groups, id) // nothing more happens in it
		w.merged[id] = &merged{source, g, source.leading().end, source.leading().version, w.rowsOf(source, source.leading().log)}
		g.propose(entry{merge: id})
		return
	}
}

// moveReplica begins or ends the move of a replica to another store.
func (w *world) moveReplica(g *group) {
	if g.learner != 0 {
		w.replicate(g, g.learner, true)
		if r := g.replicas[g.learner]; r != nil && len(r.log) == len(g.leading().log) {
			others := slices.DeleteFunc(slices.Clone(g.voters), func(s cluster.StoreID) bool { return s == g.leader })
			g.propose(entry{swap: pick(w, others)})
		}
		return
	}
	free := slices.DeleteFunc(slices.Clone(w.stores), func(s cluster.StoreID) bool { return g.replicas[s] != nil || slices.Contains(g.voters, s) })
	if len(free) > 0 {
		w.nextID++
		g.propose(entry{add: pick(w, free), peer: cluster.PeerID(w.nextID)})
	}
}

func overlaps(a, b *replica) bool {
	return (a.end == 0 || b.start < a.end) && (b.end == 0 || a.start < b.end)
}

// meta is what the store reports about its replica. TiKV 8.5 gives the hard state's term for that of the log.
func (r *replica) meta(id cluster.RegionID, hardState bool) tikv.RegionMeta {
	m := tikv.RegionMeta{
		Region: id, PeerID: r.peer, LastLogTerm: last(r.log), LastIndex: uint64(len(r.log)), Version: r.version,
		Keys: cluster.KeyRange{Start: key(r.start), End: key(r.end)},
	}
	if hardState {
		m.LastLogTerm = r.vote
	}
	return m
}
