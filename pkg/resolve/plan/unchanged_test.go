package plan_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// margin is what a second is for real timestamps: more than any chain of commits is ahead of PD.
const margin = 1000

// rules is what a backup and a restore pay attention to. Each test but one leaves one of them out.
type rules struct {
	mark     func(*cluster.Region, tikv.RaftState) (marks.Mark, bool)
	same     func(marks.Mark, marks.Log) bool
	locks    bool   // regions with a lock count as changed
	margin   uint64 // how far the backup ts is above the marks' ts
	tsBefore bool   // the marks' ts is taken before they are read
}

func allRules() rules {
	return rules{mark: marks.Of, same: marks.Mark.Unchanged, locks: true, margin: margin}
}

// proof is one backup and what a restore by the rules would find unchanged.
type proof struct {
	regions, unchanged, wrong int
	seen                      seen
	// kinds is how many of the regions that were found unchanged each kind has happened to.
	kinds map[kind]int
}

// prove makes a cluster with a history, marks it, cuts it, plans, and counts the regions that the rules take for unchanged
// although a flashback would have changed a row of them or taken a lock away.
func prove(t *rapid.T, by rules) proof {
	s := &shop{world: newWorld(t), now: 100, pipelined: map[uint64]bool{}}
	for range s.between(0, 400) + pick(s.world, []int{0, 400, 1200}) {
		s.step(true)
	}
	if s.between(0, 1) == 0 { // otherwise hardly a region is without a lock
		s.settle(func(*txn) bool { return true })
	}
	ts := s.tick()
	if by.tsBefore {
		s.now += 2 * margin
		for range s.between(0, 20) {
			s.step(true)
		}
	}
	set := s.marks(by)
	if !by.tsBefore {
		ts = s.tick()
	}
	for range s.between(0, 20) {
		s.step(true)
	}
	resolved := ts + by.margin
	s.now = max(s.now, resolved)
	s.resolve()
	images := s.copyAll()
	s.log(images)
	made, err := makePlan(t, reported(images, true), 3)
	require.NoError(t, err, "a good backup is refused")
	return s.judge(by, set, made, images, resolved)
}

// marks reads the marks of all regions, while work continues between and within the reads.
func (s *shop) marks(by rules) map[cluster.RegionID]marks.Mark {
	set := map[cluster.RegionID]marks.Mark{}
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[id]
		if g == nil || g.leader == 0 {
			continue
		}
		if s.between(0, 2) > 0 {
			s.rest(g)
		}
		if g.leader == 0 { // it was moved away
			continue
		}
		from := g.leader
		if s.between(0, 3) == 0 { // PD has not heard of the newest leader
			from = pick(s.world, slices.Sorted(maps.Keys(g.replicas)))
		}
		r := g.replicas[from]
		state := tikv.RaftState{Term: max(r.vote, last(r.log)), Last: uint64(len(r.log)), Commit: uint64(s.knownCommit(g, r)), Settled: true}
		for range s.between(0, 3) {
			s.step(true)
		}
		state.Version = r.version
		if m, ok := by.mark(&cluster.Region{ID: id, Version: g.replicaVersion(), Leader: cluster.Peer{Store: from}}, state); ok {
			set[id] = m
			s.marked(g)
		}
	}
	return set
}

// rest lets nothing more happen to a region by itself, once all that its leader has is applied by the leader. A voter may lag
// from then on.
func (s *shop) rest(g *group) {
	s.resting[g.id] = true
	if s.between(0, 1) == 0 {
		s.catchUp(g)
		return
	}
	others := slices.DeleteFunc(s.shuffled(g.voters), func(v cluster.StoreID) bool { return v == g.leader })
	for _, to := range others[:len(g.voters)/2] {
		s.replicate(g, to, true)
	}
	s.apply(g, g.leader, true)
}

// knownCommit is how far the replica knows its log to be committed: at most what is, at least what it has applied.
func (s *shop) knownCommit(g *group, r *replica) int {
	l, known := g.leading(), 0
	for known < min(g.commit, len(r.log), len(l.log)) && r.log[known] == l.log[known] {
		known++
	}
	if r == l || known <= r.applied {
		return known
	}
	return s.between(r.applied, known)
}

// replicaVersion is what PD lists.
func (g *group) replicaVersion() uint64 {
	if l := g.leading(); l != nil {
		return l.version
	}
	return 0
}

// judge counts the regions that are taken for unchanged, and those of them that are not.
func (s *shop) judge(by rules, set map[cluster.RegionID]marks.Mark, made *plan.Plan, images map[cluster.StoreID]image, resolved uint64) proof {
	p := proof{regions: len(made.Leaders), kinds: map[kind]int{}}
	for i, log := range made.Logs() {
		m, ok := set[log.Region]
		if !ok || !by.same(m, log) {
			continue
		}
		clean, open := true, 0
		for _, rows := range s.mayLead(made.Leaders[i], images) {
			locked, newer := false, false
			for _, row := range rows {
				locked, newer = locked || row.lock != 0, newer || row.commit > resolved
				if s.pipelined[row.lock] {
					open = 1
				}
			}
			if locked && by.locks {
				clean = true
				ok = false // the scan finds it, and the region is flashed back
				break
			}
			clean = clean && !locked && !newer
		}
		s.seen.open += open
		if !ok {
			continue
		}
		p.unchanged++
		s.noteLag(m, images)
		for k, regions := range s.happened {
			if regions[log.Region] {
				p.kinds[k]++
			}
		}
		if !clean {
			p.wrong++
			s.t.Logf("region %s is not unchanged at %d: mark %+v, log %+v", log.Region, resolved, m, log)
		}
	}
	p.seen = s.seen
	return p
}

// noteLag notes a region some voter of which lacks entries of the mark.
func (s *shop) noteLag(m marks.Mark, images map[cluster.StoreID]image) {
	g := s.groups[m.Region]
	if g == nil {
		return
	}
	for _, store := range g.voters {
		if r := images[store][m.Region]; r != nil && uint64(len(r.log)) < m.Index {
			s.happened.note(laggingPeer, m.Region)
		}
	}
}

// mayLead is the rows of each replica that the voters may elect, the planned leader first; of a region that is being
// merged, in which there are no votes any more, the planned leader's alone.
func (s *shop) mayLead(l plan.Leader, images map[cluster.StoreID]image) []rows {
	g := s.groups[l.Region]
	if g == nil {
		return []rows{s.rowsOf(s.merged[l.Region].group, images[l.Store][l.Region].log)}
	}
	var out []rows
	for _, store := range append([]cluster.StoreID{l.Store}, g.voters...) {
		on := l
		on.Store = store
		if images[store][l.Region] != nil && elected(g, on, images) {
			out = append(out, s.rowsOf(g, images[store][l.Region].log))
		}
	}
	return out
}

// Of every region that is found unchanged, whoever is elected has rows that a flashback would not change, and no lock:
// after leader changes, stale leaders, lags, restarts, splits, merges, moved replicas, one-phase, asynchronous, pessimistic,
// large and pipelined transactions.
func TestUnchanged_FlashbackWouldChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		require.Zero(t, prove(t, allRules()).wrong, "a region is found unchanged that is not")
	})
}

// The same histories each time have all that they are there for, and regions that are found unchanged after it.
func TestUnchanged_FixedHistories_HaveEachKind(t *testing.T) {
	t.Parallel()
	all := proof{kinds: map[kind]int{}}
	for seed := range 400 {
		rapid.Custom(func(t *rapid.T) int {
			p := prove(t, allRules())
			require.Zero(t, p.wrong, "a region is found unchanged that is not")
			all.regions, all.unchanged = all.regions+p.regions, all.unchanged+p.unchanged
			all.seen.batches += p.seen.batches
			all.seen.acrossMark += p.seen.acrossMark
			all.seen.open += p.seen.open
			for k, n := range p.kinds {
				all.kinds[k] += n
			}
			return 0
		}).Example(seed)
	}
	t.Logf("%+v", all)
	require.Greater(t, all.unchanged, all.regions/20, "hardly any region is found unchanged")
	require.Positive(t, all.seen.batches, "no transaction has come to a region in two batches")
	require.Positive(t, all.seen.acrossMark, "no mark was read between two batches")
	for _, k := range allKinds() {
		require.Greater(t, all.kinds[k], 2, "hardly any region is found unchanged to which this has happened: %s", k)
	}
	require.Positive(t, all.seen.open, "no lock of a pipelined transaction has kept a region from being unchanged")
}

// What is left out shows: each of these rules alone keeps a region from being taken for unchanged that is not.
func TestUnchanged_WithoutOneRule_FindsWhatIsNot(t *testing.T) {
	t.Parallel()
	for name, leaveOut := range map[string]func(*rules){
		"a lock may stay": func(r *rules) { r.locks = false },
		"the backup ts need not be above the marks' by a margin": func(r *rules) { r.margin = 0 },
		"the marks' ts is taken before them":                     func(r *rules) { r.tsBefore = true },
		"the log may be longer, and the leaders be others, than at the mark": func(r *rules) {
			r.same = func(m marks.Mark, l marks.Log) bool {
				m.Index, l.Longest, m.Term = l.Index, l.Index, math.MaxUint64
				return m.Unchanged(l)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			by, wrong := allRules(), 0
			leaveOut(&by)
			for seed := range 1000 {
				rapid.Custom(func(t *rapid.T) int {
					wrong += prove(t, by).wrong
					return 0
				}).Example(seed)
				if wrong > 0 {
					t.Logf("after %d histories", seed+1)
					return
				}
			}
			t.Fatal("nothing shows")
		})
	}
}
