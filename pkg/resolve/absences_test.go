package resolve_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// A store that is away is asked five times a second, and logged twice: that it is away, and how often it was asked.
func TestRecover_StoreIsAway_IsOneLogLineWithACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		back, calls := time.Now().Add(10*time.Second), 0
		b := &ballot{rack: newRack(), log: zap.New(core), list: listed, wins: func(_ cluster.RegionID, s cluster.StoreID) bool { return s == 1 }}
		b.refuses = func(store cluster.StoreID) error {
			if store == 1 && time.Now().Before(back) {
				calls++
				return failure.New(failure.Unknown, "recover regions", "store 1", "connection refused")
			}
			return nil
		}
		// PD lists the leader only later: by then the call has been open for a while.
		b.list = func(leaders map[cluster.RegionID]cluster.StoreID) []cluster.Region {
			if time.Since(back) < 5*time.Second {
				return nil
			}
			return listed(leaders)
		}
		_, err := b.recover(t)
		require.NoError(t, err)
		require.Greater(t, calls, 40)
		lines := logs.FilterField(zap.Stringer("store", cluster.StoreID(1))).All()
		require.Len(t, lines, 2, "%v", lines)
		require.Equal(t, "store is away; it is asked until it answers", lines[0].Message)
		require.Equal(t, "store is back", lines[1].Message)
		require.EqualValues(t, calls, lines[1].ContextMap()["failedTries"])
	})
}

func TestCollect_StoreIsAway_IsOneLogLineWithACount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.InfoLevel)
		k, back := newRack(), time.Now().Add(10*time.Second)
		k.report = func(address string, _ int, each func(tikv.RegionMeta) error) error {
			if address == "store-2" && time.Now().Before(back) {
				return failure.New(failure.Unknown, "read region metas", address, "connection refused")
			}
			return each(peer(1, "", ""))
		}
		k.log = zap.New(core)
		_, err := k.plan(t)
		require.NoError(t, err)
		require.Greater(t, k.streams["store-2"], 40)
		lines := logs.FilterField(zap.Stringer("store", cluster.StoreID(2))).All()
		require.Len(t, lines, 2, "%v", lines)
		require.EqualValues(t, k.streams["store-2"]-1, lines[1].ContextMap()["failedTries"])
	})
}

func TestCollect_StoreNeverComes_HintNamesTheCommandOnlyIfItWouldSucceed(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		report func(address string, each func(tikv.RegionMeta) error) error
		hint   string
	}{
		{"each region has a quorum on the others", func(_ string, each func(tikv.RegionMeta) error) error {
			return each(peer(1, "", ""))
		}, "they can be left out: tisnap resolve tidb/copy --backup nightly --tolerate-store 2"},
		{"a region has its quorum only with it", func(address string, each func(tikv.RegionMeta) error) error {
			if address == "store-3" {
				return nil
			}
			return each(peer(1, "", ""))
		}, "the cluster cannot do without them: plan recovery: 1 regions are on fewer than 2 of 3 replicas without store 2"},
		{"another one is late too", func(address string, each func(tikv.RegionMeta) error) error {
			if address == "store-3" {
				return failure.New(failure.Unknown, "read region metas", address, "connection refused")
			}
			return each(peer(1, "", ""))
		}, "the cluster cannot do without them"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := newRack()
				k.list = func(int) ([]pd.Store, error) { return upStores(1, 1, 3), nil }
				k.report = func(address string, _ int, each func(tikv.RegionMeta) error) error { return c.report(address, each) }
				_, err := k.plan(t, func(cfg *resolve.Config) { cfg.Replicas, cfg.Backup, cfg.Kept = 3, "nightly", true })
				require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
				require.Contains(t, failure.HintOf(err), c.hint)
			})
		})
	}
}
