package resolve_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// early is stores that report of one region that they have applied more than their logs have.
type early struct {
	resolve.TiKV
	addresses []string
	region    cluster.RegionID
	applied   uint64
}

func (e *early) RaftState(ctx context.Context, address string, region cluster.RegionID) (tikv.RaftState, error) {
	state, err := e.TiKV.RaftState(ctx, address, region)
	if slices.Contains(e.addresses, address) && region == e.region {
		state.Applied = e.applied
	}
	return state, err
}

// goAhead puts a version that no log has into the replicas of a region on the first n stores that were cut, which need not lead,
// and returns what these report then: gap entries above the longest log.
func (l *lab) goAhead(t *testing.T, n int, gap uint64) *early {
	t.Helper()
	on, ctx := l.stores[0], within(t) // the first that was cut
	for _, p := range on.Peers() {
		region := cluster.RegionID(p.Region.GetId())
		own, err := l.client.RaftState(ctx, on.Addr(), region)
		require.NoError(t, err)
		longest, have := own.Last, 1
		for _, s := range l.stores[1:] {
			if other, err := l.client.RaftState(ctx, s.Addr(), region); err == nil && other.Term == own.Term && other.Last >= own.Last {
				longest, have = max(longest, other.Last), have+1
			}
		}
		if have < len(l.stores) {
			continue // another one's log is shorter, or split off
		}
		out := &early{TiKV: l.client, region: region, applied: longest + gap}
		for _, s := range l.stores[:n] {
			s.Diverge(uint64(region))
			out.addresses = append(out.addresses, s.Addr())
		}
		return out
	}
	t.Fatal("no region has three equal peers")
	return nil
}

// leaveRecovery restarts the stores out of recovery mode.
func (l *lab) leaveRecovery(t *testing.T) {
	t.Helper()
	require.NoError(t, l.oracle.UnmarkRecovering(within(t)))
	for i := range l.stores {
		l.bounce(t, i)
	}
}

// rebuildStep carries out what comes between the restart and TiDB.
func rebuildStep(ctx context.Context, r *resolve.Resolver) error {
	return phase.New(phase.Config{Run: "rebuild", Journal: phase.NoJournal{}}).Run(ctx, []phase.Step{
		{Phase: "start TiDB", Name: "rebuild-replicas", Deadline: patience, Do: r.Rebuild},
	})
}

// equalReplicas waits until the stores' own data of all regions are equal, whoever leads.
func (l *lab) equalReplicas(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	stores := l.stores
	l.mu.Unlock()
	if !assert.Eventually(t, func() bool { return equalOn(stores) }, patience, 20*time.Millisecond, "the replicas are not equal") {
		for _, s := range stores {
			for _, r := range s.Replicas() {
				t.Logf("store %d: %+v", s.ID(), r)
			}
			for _, p := range s.Peers() {
				t.Logf("store %d: %+v", s.ID(), p)
			}
		}
		t.FailNow()
	}
}

func equalOn(stores []*tikvtest.Store) bool {
	first := stores[0].Replicas()
	for _, s := range stores[1:] {
		own := s.Replicas()
		if len(own) != len(first) {
			return false
		}
		for i := range own {
			if own[i] != first[i] {
				return false
			}
		}
	}
	return true
}

// Replicas have what no log has, even two of three. They are rebuilt from the other before anybody uses the cluster, and no
// other one is; their region's log ends above what they had applied. Then each store's own data are those of the backup ts.
// Catalogue: G16.
func TestReplicaAheadOfTheLog_IsRebuilt(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"one": 1, "two of three": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rebuildInLab(t, n)
		})
	}
}

func rebuildInLab(t *testing.T, n int) {
	t.Helper()
	o := makeOriginal(t)
	l := restoreLab(t, o, 1)
	ahead := l.goAhead(t, n, 60)
	kept := &memoryProgress{}
	cfg := l.config(o, "run")
	cfg.Progress, cfg.Rebuilds = kept, true
	r := resolve.New(ahead, nil)
	r.Target(cfg, l.oracle)
	require.NoError(t, phase.New(phase.Config{Run: cfg.Run, Journal: phase.NoJournal{}}).Run(within(t), r.Steps("resolve data", resolve.StepOptions{})))
	require.Equal(t, n, r.Stats().Ahead)
	require.Len(t, r.Plan().Affected, n)
	before := l.peers(t)
	var of []cluster.StoreID
	for _, s := range l.stores[:n] {
		of = append(of, cluster.StoreID(s.ID()))
	}
	state, err := l.client.RaftState(within(t), l.storeOf(before[ahead.region].Leader.Store), ahead.region)
	require.NoError(t, err)
	require.GreaterOrEqual(t, state.Last, ahead.applied, "a replica that is elected before it is replaced would not answer")
	l.leaveRecovery(t)
	for _, s := range l.stores[:n] {
		s.Diverge(uint64(ahead.region)) // a kill may lose what was not flushed
	}
	require.False(t, equalOn(l.stores))
	require.NoError(t, rebuildStep(within(t), r))
	require.Equal(t, n, r.Stats().Rebuilt)
	after := l.peers(t)
	again := resolve.New(ahead, nil) // the process has died before the end of the run was written down
	again.Target(cfg, l.oracle)
	require.NoError(t, rebuildStep(within(t), again))
	require.Equal(t, n, again.Stats().Rebuilt)
	require.Equal(t, after[ahead.region].Peers, l.peers(t)[ahead.region].Peers, "it is not done again")
	require.NoError(t, again.Thaw(within(t), nil))
	require.NoError(t, r.Thaw(within(t), nil))
	for id, region := range after {
		for _, p := range region.Peers {
			require.False(t, p.Learner)
			old := peerIDOn(before[id], p.Store)
			if id == ahead.region && slices.Contains(of, p.Store) {
				require.NotEqual(t, old, p.ID, "it is a new one")
				continue
			}
			require.Equal(t, old, p.ID, "region %s on store %s is left alone", id, p.Store)
		}
		require.Len(t, region.Peers, 3)
	}
	l.equalReplicas(t)
	l.verify(t, o)
}

// The cut catches a store whose raft volume stalls while its leaders apply early: its data are ahead of every log of the set. Its own
// log may be as the others' were at their cut, or longer: then it alone can lead at first.
// Catalogue: G16.
func TestCutCaughtLeadersThatAppliedEarly_TheirReplicasAreRebuilt(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]bool{"their logs are as the others'": false, "their logs are the best": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := makeOriginal(t, func(l *lab) {
				if !longer {
					l.amidCuts = func() {
						l.stores[2].StallLog(0)
						l.awaitLogs(t, l.stores[1], l.stores[2])
					}
				}
				l.lastCut = func() { l.applyEarly(t, longer) }
			})
			l := restoreLab(t, o, 1)
			cfg := l.config(o, "run")
			cfg.Progress, cfg.Rebuilds = &memoryProgress{}, true
			r := resolve.New(l.client, nil)
			r.Target(cfg, l.oracle)
			notes := &notes{}
			require.NoError(t, phase.New(phase.Config{Run: cfg.Run, Journal: phase.NoJournal{}, Sink: notes}).Run(within(t), r.Steps("resolve data", resolve.StepOptions{})))
			require.Positive(t, r.Stats().Ahead)
			require.Equal(t, longer, notes.have("replicas that are ahead of every log lead"))
			of := cluster.StoreID(l.stores[2].ID())
			for _, a := range r.Plan().Affected {
				require.Equal(t, of, a.Store)
			}
			require.Empty(t, r.Plan().AffectedLeaders(), "none of them leads any more")
			l.leaveRecovery(t)
			require.NoError(t, rebuildStep(within(t), r))
			require.Equal(t, r.Stats().Ahead, r.Stats().Rebuilt)
			require.NoError(t, r.Thaw(within(t), nil))
			l.equalReplicas(t)
			l.verify(t, o)
		})
	}
}

// notes keeps the messages of a run. It is safe for concurrent use.
type notes struct {
	mu       sync.Mutex
	messages []string
}

func (n *notes) Emit(e phase.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.messages = append(n.messages, e.Message)
}

func (n *notes) have(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Contains(strings.Join(n.messages, "\n"), text)
}

// awaitLogs returns when the logs of a store have all that those of a stalled one have, on the device: what a leader wrote to
// its own log right before the stall may still be on its way.
func (l *lab) awaitLogs(t *testing.T, of, stalled *tikvtest.Store) {
	t.Helper()
	last := func(s *tikvtest.Store, region uint64) (uint64, bool) {
		state, err := l.client.RaftState(within(t), s.Addr(), cluster.RegionID(region))
		return state.Last, err == nil
	}
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(stalled.Peers(), func(p tikvtest.PeerState) bool {
			want, known := last(stalled, p.Region.GetId())
			has, answers := last(of, p.Region.GetId())
			return !known || !answers || has < want
		})
	}, patience, 5*time.Millisecond, "the stores' logs differ")
}

// applyEarly returns when a leader on the last store to be cut has data that no log has, and a log that is longer than the others'
// if that is asked for.
func (l *lab) applyEarly(t *testing.T, longer bool) {
	t.Helper()
	last := l.stores[2]
	logs := func(s *tikvtest.Store) map[uint64]uint64 {
		out := map[uint64]uint64{}
		for _, p := range s.Peers() {
			out[p.Region.GetId()] = p.LastIndex
		}
		return out
	}
	longest := logs(l.stores[1]) // when it was cut, or later
	aLeader := func(of func(p tikvtest.PeerState, others uint64) bool) func() bool {
		return func() bool {
			return slices.ContainsFunc(last.Peers(), func(p tikvtest.PeerState) bool {
				others := longest[p.Region.GetId()]
				return p.Leader && others > 0 && of(p, others)
			})
		}
	}
	if longer {
		require.Eventually(t, aLeader(func(p tikvtest.PeerState, others uint64) bool {
			state, err := l.client.RaftState(within(t), last.Addr(), cluster.RegionID(p.Region.GetId()))
			return err == nil && state.Last > others // as it is on the device
		}), patience, 5*time.Millisecond, "no leader was written to")
		last.StallLog(0)
	}
	stalled := longest
	if longer {
		stalled = logs(last)
	}
	require.Eventually(t, aLeader(func(p tikvtest.PeerState, others uint64) bool {
		return p.Durable > stalled[p.Region.GetId()] && (!longer || stalled[p.Region.GetId()] > others)
	}), patience, 5*time.Millisecond, "no leader has applied early")
}

func (l *lab) peers(t *testing.T) map[cluster.RegionID]cluster.Region {
	t.Helper()
	regions, err := l.oracle.Regions(within(t), cluster.KeyRange{})
	require.NoError(t, err)
	out := map[cluster.RegionID]cluster.Region{}
	for _, region := range regions {
		out[region.ID] = region
	}
	return out
}

func (l *lab) storeOf(id cluster.StoreID) string {
	for _, s := range l.stores {
		if s.ID() == uint64(id) {
			return s.Addr()
		}
	}
	return ""
}

func peerIDOn(region cluster.Region, store cluster.StoreID) cluster.PeerID {
	for _, p := range region.Peers {
		if p.Store == store {
			return p.ID
		}
	}
	return 0
}
