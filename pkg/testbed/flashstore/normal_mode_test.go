package flashstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/testbed/flashstore"
	"github.com/tisnap/tisnap/pkg/tikv"
)

const walk = 50 * time.Millisecond

// led is a store that leads three regions in recovery mode, of which the last one's log is longer.
type led struct {
	pd    *pdtest.Server
	store *flashstore.Store
	tikv  *tikv.Client
	flash func(region uint64) error
	locks func(region uint64) (bool, error)
}

func newLed(ctx context.Context, t *testing.T) led {
	t.Helper()
	l := led{tikv: tikv.Open(tikv.Config{})}
	t.Cleanup(l.tikv.Close)
	var err error
	l.pd, err = pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, l.pd.Start())
	t.Cleanup(l.pd.Close)
	var regions []*metapb.Region
	for i, keys := range [][2]string{{"", "b"}, {"b", "c"}, {"c", ""}} {
		regions = append(regions, &metapb.Region{
			Id: uint64(10 + i), StartKey: encoded(keys[0]), EndKey: encoded(keys[1]),
			RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 7}, Peers: []*metapb.Peer{{Id: uint64(20 + i), StoreId: 1}},
		})
	}
	_, err = l.pd.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Header: &pdpb.RequestHeader{ClusterId: l.pd.ClusterID()}, Store: &metapb.Store{Id: 1, Address: "127.0.0.1:1"},
		Region: &metapb.Region{Id: 2, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1}, Peers: []*metapb.Peer{{Id: 3, StoreId: 1}}},
	})
	require.NoError(t, err)
	l.store, err = flashstore.Start(ctx, flashstore.Config{
		ID: 1, PD: l.pd, Regions: regions, Slots: 4, Walk: walk, Term: 8, Index: 30, Longer: func(region uint64) bool { return region == 12 },
	})
	require.NoError(t, err)
	t.Cleanup(l.store.Stop)
	recovering, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.tikv.Recover(recovering, l.store.Address(), []tikv.Command{{Region: 10, AsLeader: true}, {Region: 11, AsLeader: true}, {Region: 12, AsLeader: true}})
	}()
	t.Cleanup(func() { stop(); <-ended })
	require.Eventually(t, func() bool { return len(l.store.Led()) == 3 }, time.Minute, time.Millisecond)
	call := func(region uint64) tikv.Flashback {
		r := regions[region-10]
		keys, err := tikv.DecodeRange(cluster.KeyRange{Start: r.StartKey, End: r.EndKey})
		require.NoError(t, err)
		return tikv.Flashback{
			Region: cluster.Region{
				ID: cluster.RegionID(region), ConfVer: 1, Version: 7, Keys: cluster.KeyRange{Start: r.StartKey, End: r.EndKey},
				Leader: cluster.Peer{ID: cluster.PeerID(region + 10), Store: 1},
			},
			Keys: keys, Version: 10, StartTS: 20, CommitTS: 21,
		}
	}
	l.flash = func(region uint64) error {
		if err := l.tikv.PrepareFlashback(ctx, l.store.Address(), call(region)); err != nil {
			return err
		}
		return l.tikv.Flashback(ctx, l.store.Address(), call(region))
	}
	l.locks = func(region uint64) (bool, error) { return l.tikv.AnyLock(ctx, l.store.Address(), call(region).Region) }
	return l
}

// The volume reads for one region after the other, however many calls are open; what has no flashback is not read.
func TestStore_Walk_IsReadForOneRegionAfterTheOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := newLed(ctx, t)
	locked, err := l.locks(10)
	require.NoError(t, err)
	require.False(t, locked)
	begin := time.Now()
	errs := make(chan error, 3)
	for region := range uint64(3) {
		go func() { errs <- l.flash(10 + region) }()
	}
	for range 3 {
		require.NoError(t, <-errs)
	}
	require.GreaterOrEqual(t, time.Since(begin), 3*walk)
	require.EqualValues(t, 3, l.store.Counts().Flashbacks.Load())
}

// The logs end where they were set to, and outside recovery mode the store leads again what it led.
func TestStore_LeavesRecoveryMode_LeadsWhatItLed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := newLed(ctx, t)
	last := map[cluster.RegionID]uint64{}
	metas := func() error {
		return l.tikv.RegionMetas(ctx, l.store.Address(), func(m tikv.RegionMeta) error {
			last[m.Region] = m.LastIndex
			return nil
		})
	}
	require.NoError(t, metas())
	require.Equal(t, map[cluster.RegionID]uint64{10: 30, 11: 30, 12: 31}, last)
	l.store.Stop()
	require.NoError(t, l.store.LeaveRecovery(ctx))
	require.Eventually(t, func() bool { return failure.Is(metas(), failure.Unready) }, time.Minute, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		regions, _, err := l.tikv.LedRegions(ctx, l.store.Address())
		return err == nil && len(regions) == 3
	}, time.Minute, 10*time.Millisecond)
}

func encoded(key string) []byte {
	if key == "" {
		return nil
	}
	return codec.EncodeBytes(nil, []byte(key))
}
