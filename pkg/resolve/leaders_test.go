package resolve_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// ballot is stores of which some win the elections that they are asked to hold.
type ballot struct {
	*rack
	wins func(region cluster.RegionID, store cluster.StoreID) bool
	list func(leaders map[cluster.RegionID]cluster.StoreID) []cluster.Region // that PD lists
	// refuses is why a store does not take the call; nil for none.
	refuses func(store cluster.StoreID) error
	away    func() bool // PD's regions cannot be read; nil is never
	log     *zap.Logger
	change  func(*resolve.Config) // nil is none

	mu      sync.Mutex
	leaders map[cluster.RegionID]cluster.StoreID
	asked   []cluster.StoreID // to lead region 1
}

func (b *ballot) Recover(ctx context.Context, address string, commands []tikv.Command) error {
	var store cluster.StoreID
	for _, id := range []cluster.StoreID{1, 2, 3} {
		if strings.HasSuffix(address, "-"+id.String()) {
			store = id
		}
	}
	if b.refuses != nil {
		if err := b.refuses(store); err != nil {
			return err
		}
	}
	b.mu.Lock()
	for _, c := range commands {
		if c.Region == 1 {
			b.asked = append(b.asked, store)
		}
		if b.wins(c.Region, store) {
			b.leaders[c.Region] = store
		}
	}
	b.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (b *ballot) Regions(context.Context, cluster.KeyRange) ([]cluster.Region, error) {
	if b.away != nil && b.away() {
		return nil, failure.New(failure.Unready, "scan regions", "", "no leader")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list(b.leaders), nil
}

// recover carries out the steps collect, plan and recover with the test's patience, and returns how long it took.
func (b *ballot) recover(t *testing.T) (time.Duration, error) {
	t.Helper()
	b.leaders = map[cluster.RegionID]cluster.StoreID{}
	r := resolve.New(b, b.log)
	cfg := resolve.Config{
		Cluster: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "run", BackupTS: 1, Stores: []cluster.StoreID{1, 2, 3}, Stall: time.Minute,
	}
	wanted := []string{"collect", "plan", "recover", "end-recover"}
	if b.change != nil {
		b.change(&cfg)
		wanted = append(wanted, journal.StepFindAhead)
	}
	r.Target(cfg, b)
	steps := slices.DeleteFunc(r.Steps("resolve data", resolve.StepOptions{}), func(s phase.Step) bool {
		return !slices.Contains(wanted, s.Name)
	})
	begin := time.Now()
	err := phase.New(phase.Config{Run: "run", Journal: phase.NoJournal{}}).Run(t.Context(), steps)
	return time.Since(begin), err
}

// listed is region 1 of the whole key space, as PD knows it by its leader's heartbeat.
func listed(leaders map[cluster.RegionID]cluster.StoreID) []cluster.Region {
	return []cluster.Region{{ID: 1, Version: 1, Leader: cluster.Peer{Store: leaders[1]}}}
}

func TestRecover_LeaderDoesNotCome_OtherPeersAreTried(t *testing.T) {
	t.Parallel()
	for _, winner := range []cluster.StoreID{2, 3} {
		t.Run("store "+winner.String()+" wins", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &ballot{rack: newRack(), list: listed, wins: func(_ cluster.RegionID, s cluster.StoreID) bool { return s == winner }}
				took, err := b.recover(t)
				require.NoError(t, err)
				require.Less(t, took, 2*time.Minute)
				want := []cluster.StoreID{1, 1, 2, 3}
				require.Equal(t, want[:winner+1], b.asked, "the planned one twice, then the others")
			})
		})
	}
}

func TestRecover_NoPeerWins_RegionIsNamedWithWhatWasTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &ballot{rack: newRack(), list: listed, wins: func(cluster.RegionID, cluster.StoreID) bool { return false }}
		took, err := b.recover(t)
		require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "0 of 1 regions lead and nothing changed for 1m0s: region 1 on store 3 "+
			"(PD knows no leader, store 1 was tried, store 2 was tried, 3 peers, the best log ends at term 5, index 10)")
		require.Less(t, took, 2*time.Minute)
	})
}

// While PD's regions cannot be read the leaders are unknown: the planned ones are kept, and the error gives the reason.
func TestRecover_PDDoesNotAnswer_PlannedLeadersStay(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		away time.Duration
		err  string
	}{
		"for a while": {away: 50 * time.Second},
		"for ever":    {away: time.Hour, err: "PD's regions cannot be read for 1m0s: scan regions: no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				b := &ballot{
					rack: newRack(), wins: func(_ cluster.RegionID, s cluster.StoreID) bool { return s == 1 },
					list: func(leaders map[cluster.RegionID]cluster.StoreID) []cluster.Region {
						if time.Since(begin) < row.away+15*time.Second { // less than a third of the patience
							return listed(nil)
						}
						return listed(leaders)
					},
					away: func() bool { return time.Since(begin) > time.Second && time.Since(begin) < row.away },
				}
				took, err := b.recover(t)
				require.Equal(t, []cluster.StoreID{1}, b.asked, "the planned one, once")
				require.Less(t, took, 2*time.Minute)
				if row.err == "" {
					require.NoError(t, err)
					return
				}
				require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
				require.ErrorContains(t, err, row.err)
			})
		})
	}
}

// A log may hold a merge or a split that its peers apply only when they have a leader: the planned region is gone
// then, or its range is another's.
func TestRecover_NewerRegionHasAPlannedRange_CountsAsLed(t *testing.T) {
	t.Parallel()
	region := func(id cluster.RegionID, start, end string, version uint64, leader cluster.StoreID) cluster.Region {
		return cluster.Region{
			ID: id, Version: version, Leader: cluster.Peer{Store: leader}, Keys: cluster.KeyRange{Start: []byte(start), End: []byte(end)},
		}
	}
	cases := []struct {
		name string
		pd   []cluster.Region
		led  bool
	}{
		{"merged into its neighbour", []cluster.Region{region(1, "", "", 3, 1)}, true},
		{"split between two new regions", []cluster.Region{region(1, "", "m", 1, 1), region(8, "m", "s", 2, 2), region(9, "s", "", 2, 2)}, true},
		{"a new region has a part of it", []cluster.Region{region(1, "", "m", 1, 1), region(8, "m", "s", 2, 2)}, false},
		{"the new region has no leader", []cluster.Region{region(1, "", "m", 1, 1), region(8, "m", "", 2, 0)}, false},
		{"the other region is as old", []cluster.Region{region(1, "", "", 1, 1)}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := &ballot{
					rack: newRack(), wins: func(cluster.RegionID, cluster.StoreID) bool { return true },
					list: func(map[cluster.RegionID]cluster.StoreID) []cluster.Region { return c.pd },
				}
				b.report = func(_ string, _ int, each func(tikv.RegionMeta) error) error {
					if err := each(peer(1, "", "m")); err != nil {
						return err
					}
					return each(peer(2, "m", ""))
				}
				took, err := b.recover(t)
				if c.led {
					require.NoError(t, err)
					require.Less(t, took, time.Second)
					return
				}
				require.ErrorContains(t, err, "region 2 on store ")
			})
		})
	}
}
