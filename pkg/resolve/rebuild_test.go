package resolve_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// shownPD removes peers as the row has it, and makes up for them on the same stores once its limits let it.
type shownPD struct {
	resolve.PD
	mu      sync.Mutex
	regions []cluster.Region
	refuse  error                            // of the next removal
	after   func(p *shownPD, removal string) // what becomes of the regions; nil is that the peer goes
	poor    bool                             // it makes up for nothing
	away    bool                             // it lists no regions
	removed []string                         // "region/store"
	limits  map[string]string
	ttl     time.Duration
	made    []string // replica-schedule-limit, as it was set
	lacking []string // "region/store" that peers were made up for
}

func (p *shownPD) ClusterID(context.Context) (uint64, error)                      { return 7, nil }
func (p *shownPD) Schedulers(context.Context) ([]pd.Scheduler, error)             { return nil, nil }
func (p *shownPD) ReleaseGC(context.Context, string) error                        { return nil }
func (p *shownPD) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) { return nil, 0, nil }
func (p *shownPD) HoldGC(context.Context, string, cluster.TS, time.Duration) (cluster.TS, error) {
	return 0, nil
}

func (p *shownPD) Regions(_ context.Context, _ cluster.KeyRange) ([]cluster.Region, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, failure.New(failure.Limited, "list regions", "PD", "no leader")
	}
	return slices.Clone(p.regions), nil
}

func (p *shownPD) RemovePeer(_ context.Context, region cluster.RegionID, store cluster.StoreID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.refuse; err != nil {
		p.refuse = nil
		return err
	}
	removal := fmt.Sprintf("%s/%s", region, store)
	p.removed = append(p.removed, removal)
	if p.after == nil {
		p.lose(removal)
	} else {
		p.after(p, removal)
	}
	return nil
}

// lose takes the peer off the region.
func (p *shownPD) lose(removal string) {
	for i := range p.regions {
		r := &p.regions[i]
		r.Peers = slices.DeleteFunc(slices.Clone(r.Peers), func(q cluster.Peer) bool {
			gone := fmt.Sprintf("%s/%s", r.ID, q.Store) == removal
			if gone {
				r.ConfVer++
				p.lacking = append(p.lacking, removal)
			}
			return gone
		})
	}
}

// makeUp gives the regions new peers on the stores where they have none since a removal.
func (p *shownPD) makeUp() {
	for i := range p.regions {
		r := &p.regions[i]
		p.lacking = slices.DeleteFunc(p.lacking, func(removal string) bool {
			var region cluster.RegionID
			var store cluster.StoreID
			_, _ = fmt.Sscanf(removal, "%d/%d", &region, &store)
			if region != r.ID {
				return false
			}
			r.Peers = append(slices.Clone(r.Peers), cluster.Peer{ID: cluster.PeerID(900+10*region) + cluster.PeerID(store), Store: store})
			r.ConfVer++
			return true
		})
	}
}

func (p *shownPD) SetTTLConfig(_ context.Context, items map[string]any, ttl time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits, p.ttl = map[string]string{}, ttl
	for k, v := range items {
		p.limits[k] = fmt.Sprint(v)
	}
	p.made = append(p.made, p.limits["schedule.replica-schedule-limit"])
	if p.made[len(p.made)-1] != "0" && !p.poor {
		p.makeUp()
	}
	return nil
}

func (p *shownPD) DropTTLConfig(context.Context, []string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = nil
	return nil
}

func (p *shownPD) TTLConfig(context.Context) (map[string]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits, nil
}

// shownRegion has peers 101, 102, … on stores 1, 2, …; the last one leads.
func shownRegion(id cluster.RegionID, start, end string, n int) cluster.Region {
	r := cluster.Region{ID: id, Keys: cluster.KeyRange{Start: []byte(start), End: []byte(end)}, ConfVer: 5}
	for i := 1; i <= n; i++ {
		r.Peers = append(r.Peers, cluster.Peer{ID: cluster.PeerID(100*int(id) + i), Store: cluster.StoreID(i)})
	}
	r.Leader = r.Peers[n-1]
	return r
}

// foundAhead is the progress of a run that has found replicas of region 1 on the stores.
func foundAhead(stores ...cluster.StoreID) resolve.Progress {
	p := resolve.Progress{ClusterID: 7, BackupTS: 1, Run: "before", EarlyApply: &resolve.EarlyApply{}}
	for _, s := range stores {
		p.EarlyApply.Affected = append(p.EarlyApply.Affected, plan.Ahead{Region: 1, Store: s, Applied: 12})
		p.EarlyApply.Rebuild = append(p.EarlyApply.Rebuild, resolve.Replica{Region: 1, Store: s, Keys: cluster.KeyRange{End: []byte("m")}})
	}
	return p
}

func lowered() map[string]string {
	return map[string]string{
		"schedule.leader-schedule-limit": "0", "schedule.region-schedule-limit": "0", "schedule.replica-schedule-limit": "0",
		"schedule.merge-schedule-limit": "0",
	}
}

// rebuild carries out Rebuild alone, as a run does that resumes another one's.
func (p *shownPD) rebuild(ctx context.Context, t *testing.T, kept resolve.ProgressStore, change func(*resolve.Config)) (*resolve.Resolver, error) {
	t.Helper()
	if p.limits == nil {
		p.limits = lowered() // as the run before has left them
	}
	cfg := resolve.Config{Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "run", BackupTS: 1, Rebuilds: true, Progress: kept, Stall: time.Minute}
	if change != nil {
		change(&cfg)
	}
	r := resolve.New(nil, nil)
	r.Target(cfg, p)
	err := phase.New(phase.Config{Run: cfg.Run, Journal: phase.NoJournal{}}).Run(ctx, []phase.Step{
		{Phase: "start TiDB", Name: "rebuild-replicas", Deadline: 48 * time.Hour, Do: r.Rebuild},
	})
	require.NoError(t, r.Thaw(context.WithoutCancel(ctx), nil))
	return r, err
}

// Catalogue: G16.
func TestRebuild_RemovesOnlyWhatIsListedAndCanBeSpared(t *testing.T) {
	t.Parallel()
	five := func(c *resolve.Config) { c.Replicas = 5 }
	change := func(f func(*cluster.Region)) []cluster.Region {
		r := shownRegion(1, "", "m", 3)
		f(&r)
		return []cluster.Region{r, shownRegion(2, "m", "", 3)}
	}
	whole, stays := func(*cluster.Region) {}, func(*shownPD, string) {}
	some := []cluster.StoreID{1}
	for name, row := range map[string]struct {
		stores  []cluster.StoreID
		regions []cluster.Region
		after   func(*shownPD, string)
		config  func(*resolve.Config)
		removed []string
		stuck   string // why it is not rebuilt in the end; "" is that it is
	}{
		"one of three":                    {some, change(whole), nil, nil, []string{"1/1"}, ""},
		"PD makes one at once":            {some, change(whole), func(p *shownPD, removal string) { p.lose(removal); p.makeUp() }, nil, []string{"1/1"}, ""},
		"none is listed":                  {nil, change(whole), nil, nil, nil, ""},
		"PD removes nothing":              {some, change(whole), stays, nil, []string{"1/1"}, "PD is to remove its peer"},
		"another one has no snapshot yet": {some, change(func(r *cluster.Region) { r.Pending = []cluster.PeerID{102} }), nil, nil, nil, "1 of its 2 other peers"},
		"it has no snapshot itself":       {some, change(func(r *cluster.Region) { r.Pending = []cluster.PeerID{101} }), nil, nil, []string{"1/1"}, ""},
		"another one is down":             {some, change(func(r *cluster.Region) { r.DownPeer = []cluster.PeerID{102} }), nil, nil, nil, "1 of its 2 other peers"},
		"another one is a learner":        {some, change(func(r *cluster.Region) { r.Peers[1].Learner = true }), nil, nil, []string{"1/1"}, ""},
		"another one is a witness":        {some, change(func(r *cluster.Region) { r.Peers[1].Witness = true }), nil, nil, nil, "1 of its 2 other peers"},
		"two of three":                    {[]cluster.StoreID{1, 2}, change(whole), nil, nil, []string{"1/1", "1/2"}, ""},
		"two of three, and no other is up": {
			[]cluster.StoreID{1, 2}, change(func(r *cluster.Region) { r.DownPeer = []cluster.PeerID{103} }), nil, nil, nil, "no other peer is healthy",
		},
		"all are listed":               {[]cluster.StoreID{1, 2, 3}, change(whole), nil, nil, nil, "no other peer is healthy"},
		"the region has no leader":     {some, change(func(r *cluster.Region) { r.Leader = cluster.Peer{} }), nil, nil, nil, "no leader"},
		"its peers change already":     {some, change(func(r *cluster.Region) { r.Joint = true }), nil, nil, nil, "peers change"},
		"three of five":                {[]cluster.StoreID{1, 2, 3}, []cluster.Region{shownRegion(1, "", "m", 5)}, nil, five, []string{"1/1", "1/2", "1/3"}, ""},
		"two of five, the first hangs": {[]cluster.StoreID{1, 2}, []cluster.Region{shownRegion(1, "", "m", 5)}, stays, five, []string{"1/1"}, "PD is to remove its peer"},
		"PD makes no other":            {some, change(whole), poor, nil, []string{"1/1"}, "2 of 3 peers are healthy"},
		"what has split off it is, too": {
			some, []cluster.Region{shownRegion(1, "", "c", 3), shownRegion(3, "c", "m", 3)}, nil, nil, []string{"1/1", "3/1"}, "",
		},
		"PD does not know it":                 {some, []cluster.Region{shownRegion(2, "m", "", 3)}, nil, nil, nil, "PD does not know all regions"},
		"PD does not know what has split off": {some, []cluster.Region{shownRegion(1, "", "c", 3)}, nil, nil, nil, "PD does not know all regions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &shownPD{regions: row.regions, after: row.after}
				kept := &memoryProgress{saved: foundAhead(row.stores...), found: true}
				r, err := p.rebuild(t.Context(), t, kept, row.config)
				require.Equal(t, row.removed, distinct(p.removed))
				if row.stuck != "" {
					require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
					require.ErrorContains(t, err, row.stuck)
					require.NotEmpty(t, failure.HintOf(err))
					return
				}
				require.NoError(t, err)
				require.Equal(t, len(row.stores), r.Stats().Rebuilt)
			})
		})
	}
}

func poor(p *shownPD, removal string) {
	p.poor = true
	p.lose(removal)
}

// keptProgress is not cleared: the process ends before that.
type keptProgress struct{ *memoryProgress }

func (keptProgress) Clear(context.Context) error { return nil }

func distinct(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// A second process knows by what the first has written down that the peer on the store is a new one.
// Catalogue: G16.
func TestRebuild_KilledAfterTheRemoval_TheNewPeerStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, kill := context.WithCancel(t.Context())
		p := &shownPD{regions: []cluster.Region{shownRegion(1, "", "m", 3)}}
		p.after = func(p *shownPD, removal string) {
			p.lose(removal)
			kill()
		}
		kept := &memoryProgress{saved: foundAhead(1), found: true}
		_, err := p.rebuild(ctx, t, keptProgress{kept}, nil)
		require.Error(t, err)
		p.makeUp()
		r, err := p.rebuild(t.Context(), t, kept, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"1/1"}, p.removed)
		require.Equal(t, 1, r.Stats().Rebuilt)
	})
}

// PD makes replicas when all that are ahead are gone, and not before: one of these could lead. An operator that is in the
// way is waited for.
func TestRebuild_LimitsOfPD_AreRaisedOnceAllAreRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &shownPD{regions: []cluster.Region{shownRegion(1, "", "m", 3)}}
		p.after = func(p *shownPD, removal string) {
			require.Equal(t, []string{"0"}, p.made)
			require.Equal(t, 7*24*time.Hour, p.ttl, "a kill must not let PD copy the other")
			p.lose(removal)
		}
		p.refuse = failure.New(failure.Limited, "remove peer", "", "maybe already have one")
		_, err := p.rebuild(t.Context(), t, &memoryProgress{saved: foundAhead(1, 2), found: true}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"1/1", "1/2"}, p.removed)
		require.Equal(t, []string{"0", "32", "0"}, p.made)
		require.Equal(t, 10*time.Minute, p.ttl)
		require.Empty(t, p.limits, "all is done")
	})
}

// A run that fails while a replica is ahead leaves PD's limits at 0 for the next one, which refuses a PD that has had others.
func TestRebuild_FailsWhileAReplicaIsAhead_PDStaysFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &shownPD{regions: []cluster.Region{shownRegion(1, "", "m", 3)}, after: func(*shownPD, string) {}}
		kept := keptProgress{&memoryProgress{saved: foundAhead(1), found: true}}
		_, err := p.rebuild(t.Context(), t, kept, nil)
		require.Equal(t, failure.Limited, failure.KindOf(err))
		require.Equal(t, lowered(), p.limits)
		for item := range lowered() {
			p.limits = lowered()
			delete(p.limits, item)
			_, err = p.rebuild(t.Context(), t, kept, nil)
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, item+" was not 0")
			require.Contains(t, failure.HintOf(err), "fresh volumes")
			require.Equal(t, []string{"1/1"}, distinct(p.removed))
		}
	})
}

// The error of a PD that answers no more names what it is to remove.
func TestRebuild_PDIsAway_NamesTheReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &shownPD{away: true}
		_, err := p.rebuild(t.Context(), t, &memoryProgress{saved: foundAhead(1, 2), found: true}, nil)
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "2 of 2 are not rebuilt")
		require.ErrorContains(t, err, "region 1 on store 2 (PD has not answered)")
		require.ErrorContains(t, err, "no leader")
	})
}

// Once they are removed, what PD makes is made from the others, whatever its limits are.
func TestRebuild_KilledOnceAllAreRemoved_PDMayScheduleMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &shownPD{regions: []cluster.Region{shownRegion(1, "", "m", 3)}, after: poor}
		kept := keptProgress{&memoryProgress{saved: foundAhead(1), found: true}}
		_, err := p.rebuild(t.Context(), t, kept, nil)
		require.ErrorContains(t, err, "2 of 3 peers are healthy")
		p.limits, p.poor = map[string]string{"schedule.merge-schedule-limit": "8"}, false
		r, err := p.rebuild(t.Context(), t, kept, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"1/1"}, p.removed)
		require.Equal(t, 1, r.Stats().Rebuilt)
	})
}

// Which replicas were ahead can no longer be seen: a run of an older version has not looked.
// Catalogue: G16.
func TestRebuild_ReplicasAheadNeverChecked_IsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		saved := foundAhead()
		saved.EarlyApply = nil
		p := &shownPD{}
		_, err := p.rebuild(t.Context(), t, &memoryProgress{saved: saved, found: true}, nil)
		require.Equal(t, failure.Corrupt, failure.KindOf(err))
		require.Contains(t, failure.HintOf(err), "fresh volumes")
		_, err = p.rebuild(t.Context(), t, &memoryProgress{saved: saved, found: true}, func(c *resolve.Config) { c.NoneAhead = true })
		require.NoError(t, err, "the backup has ruled it out")
	})
}
