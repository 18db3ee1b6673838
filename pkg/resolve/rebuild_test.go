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

// shownPD shows the same regions until one of their peers is removed, and notes removals and limits.
type shownPD struct {
	resolve.PD
	mu      sync.Mutex
	regions []cluster.Region
	refuse  error                            // of the next removal
	after   func(p *shownPD, removal string) // what becomes of the regions; nil is nothing
	removed []string                         // "region/store"
	limits  map[string]string
	made    []string // replica-schedule-limit, as it was set
}

func (p *shownPD) ClusterID(context.Context) (uint64, error)                      { return 7, nil }
func (p *shownPD) Schedulers(context.Context) ([]pd.Scheduler, error)             { return nil, nil }
func (p *shownPD) DropTTLConfig(context.Context, []string) error                  { return nil }
func (p *shownPD) ReleaseGC(context.Context, string) error                        { return nil }
func (p *shownPD) SafePoints(context.Context) ([]pd.SafePoint, cluster.TS, error) { return nil, 0, nil }
func (p *shownPD) HoldGC(context.Context, string, cluster.TS, time.Duration) (cluster.TS, error) {
	return 0, nil
}

func (p *shownPD) Regions(_ context.Context, _ cluster.KeyRange) ([]cluster.Region, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	if p.after != nil {
		p.after(p, removal)
	}
	return nil
}

func (p *shownPD) SetTTLConfig(_ context.Context, items map[string]any, _ time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limits = map[string]string{}
	for k, v := range items {
		p.limits[k] = fmt.Sprint(v)
	}
	p.made = append(p.made, p.limits["schedule.replica-schedule-limit"])
	return nil
}

func (p *shownPD) TTLConfig(context.Context) (map[string]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits, nil
}

// replace gives the region a new peer on the store.
func replace(region, id int, store cluster.StoreID) func(*shownPD, string) {
	return func(p *shownPD, removal string) {
		if removal != fmt.Sprintf("%d/%s", p.regions[region].ID, store) {
			return
		}
		peers := slices.Clone(p.regions[region].Peers)
		i := slices.IndexFunc(peers, func(q cluster.Peer) bool { return q.Store == store })
		peers[i].ID = cluster.PeerID(id)
		p.regions[region].Peers = peers
		p.regions[region].ConfVer += 2
	}
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

// rebuild carries out Rebuild alone, as a run does that resumes another one's.
func (p *shownPD) rebuild(ctx context.Context, t *testing.T, kept resolve.ProgressStore, change func(*resolve.Config)) (*resolve.Resolver, error) {
	t.Helper()
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

func TestG16_Rebuild_RemovesOnlyWhatIsListedAndCanBeSpared(t *testing.T) {
	t.Parallel()
	five := func(p *resolve.Config) { p.Replicas = 5 }
	change := func(f func(*cluster.Region)) []cluster.Region {
		r := shownRegion(1, "", "m", 3)
		f(&r)
		return []cluster.Region{r, shownRegion(2, "m", "", 3)}
	}
	whole := func(*cluster.Region) {}
	for name, row := range map[string]struct {
		stores  []cluster.StoreID
		regions []cluster.Region
		after   func(*shownPD, string)
		config  func(*resolve.Config)
		removed []string
		stuck   string // why it is not rebuilt in the end; "" is that it is
	}{
		"one of three":                    {[]cluster.StoreID{1}, change(whole), replace(0, 900, 1), nil, []string{"1/1"}, ""},
		"none is listed":                  {nil, change(whole), nil, nil, nil, ""},
		"PD removes nothing":              {[]cluster.StoreID{1}, change(whole), nil, nil, []string{"1/1"}, "PD is to remove its peer"},
		"another one has no snapshot yet": {[]cluster.StoreID{1}, change(func(r *cluster.Region) { r.Pending = []cluster.PeerID{102} }), nil, nil, nil, "region 1 on store 1"},
		"another one is down":             {[]cluster.StoreID{1}, change(func(r *cluster.Region) { r.DownPeer = []cluster.PeerID{102} }), nil, nil, nil, "region 1 on store 1"},
		"another one is a learner":        {[]cluster.StoreID{1}, change(func(r *cluster.Region) { r.Peers[1].Learner = true }), nil, nil, nil, "region 1 on store 1"},
		"another one is a witness":        {[]cluster.StoreID{1}, change(func(r *cluster.Region) { r.Peers[1].Witness = true }), nil, nil, nil, "region 1 on store 1"},
		"another one is listed, too":      {[]cluster.StoreID{1, 2}, change(whole), nil, nil, nil, "region 1 on store 1"},
		"the region has no leader":        {[]cluster.StoreID{1}, change(func(r *cluster.Region) { r.Leader = cluster.Peer{} }), nil, nil, nil, "region 1 on store 1"},
		"its peers change already":        {[]cluster.StoreID{1}, change(func(r *cluster.Region) { r.Joint = true }), nil, nil, nil, "region 1 on store 1"},
		"two of five, the first hangs":    {[]cluster.StoreID{1, 2}, []cluster.Region{shownRegion(1, "", "m", 5)}, func(p *shownPD, removal string) { lose(p, removal, 1) }, five, []string{"1/1"}, "3 of 5 peers are healthy"},
		"its store has a peer of another": {[]cluster.StoreID{1}, change(whole), func(p *shownPD, s string) { replace(0, 900, 1)(p, s); p.regions[1].Peers[0].ID = 901 }, nil, []string{"1/1"}, ""},
		"what has split off it is, too":   {[]cluster.StoreID{1}, []cluster.Region{shownRegion(1, "", "c", 3), shownRegion(3, "c", "m", 3)}, both, nil, []string{"1/1", "3/1"}, ""},
		"PD does not know it":             {[]cluster.StoreID{1}, []cluster.Region{shownRegion(2, "m", "", 3)}, nil, nil, nil, "PD does not know the region"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := &shownPD{regions: row.regions, after: once(row.after)}
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

// once does it for each removal the first time only.
func once(after func(*shownPD, string)) func(*shownPD, string) {
	done := map[string]bool{}
	return func(p *shownPD, removal string) {
		if after != nil && !done[removal] {
			done[removal] = true
			after(p, removal)
		}
	}
}

// lose takes the peer off the region and adds none.
func lose(p *shownPD, removal string, store cluster.StoreID) {
	if removal == fmt.Sprintf("1/%s", store) {
		p.regions[0].Peers = slices.DeleteFunc(slices.Clone(p.regions[0].Peers), func(q cluster.Peer) bool { return q.Store == store })
	}
}

func both(p *shownPD, removal string) {
	replace(0, 900, 1)(p, removal)
	replace(1, 901, 1)(p, removal)
}

// keptProgress is not cleared: the process ends before that.
type keptProgress struct{ *memoryProgress }

func (keptProgress) Clear(context.Context) error { return nil }

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// A second process knows by what the first has written down that the peer on the store is a new one.
func TestG16_Rebuild_KilledAfterTheRemoval_TheNewPeerStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, kill := context.WithCancel(t.Context())
		p := &shownPD{regions: []cluster.Region{shownRegion(1, "", "m", 3)}}
		p.after = func(p *shownPD, removal string) {
			replace(0, 900, 1)(p, removal)
			kill()
		}
		kept := &memoryProgress{saved: foundAhead(1), found: true}
		_, err := p.rebuild(ctx, t, keptProgress{kept}, nil)
		require.Error(t, err)
		r, err := p.rebuild(t.Context(), t, kept, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"1/1"}, p.removed)
		require.Equal(t, 1, r.Stats().Rebuilt)
	})
}

// PD makes replicas during the rebuild alone, and an operator that is in the way is waited for.
func TestRebuild_LimitsOfPD_AreRaisedForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &shownPD{regions: []cluster.Region{shownRegion(1, "", "m", 3)}, after: replace(0, 900, 1)}
		p.refuse = failure.New(failure.Limited, "remove peer", "", "maybe already have one")
		_, err := p.rebuild(t.Context(), t, &memoryProgress{saved: foundAhead(1), found: true}, nil)
		require.NoError(t, err)
		require.Equal(t, []string{"1/1"}, p.removed)
		require.Equal(t, []string{"32", "0"}, p.made)
		require.Equal(t, "0", p.limits["schedule.leader-schedule-limit"])
	})
}

// Which replicas were ahead is not to be seen any more: a run of an older version has not looked.
func TestG16_Rebuild_NobodyHasLooked_IsRefused(t *testing.T) {
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
