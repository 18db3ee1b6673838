package tikvtest_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestRecover_CopiesTakenAtDifferentInstants_ReturnToResolvedTS(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10), key(20))
	history := make([]map[uint64]string, 30)
	for i := range history {
		history[i] = map[uint64]string{}
	}
	k := c.client()
	write := func(from, n int) {
		for j := range n {
			i, v := (from+j)%30, strconv.Itoa(from+j)
			history[i][k.put(key(i), []byte(v))] = v
		}
	}
	write(0, 200)
	last := k.now()
	k.prewrite(key(30), []byte("never committed"))
	locked := k.now()
	require.Eventually(t, func() bool { return c.pd.minResolved(3) > last }, 30*time.Second, time.Millisecond)
	version := c.pd.minResolved(3)
	require.Less(t, version, locked, "a lock holds the resolved ts back")
	var images [][]*disk.Image
	for i := range c.volumes {
		write(1000+i*100, 50)
		images = append(images, disk.Cut(c.volumes[i].data, c.volumes[i].log))
	}
	for _, s := range c.stores {
		s.Kill()
	}
	r := c.restore(images)
	r.pd.raiseTS(c.pd.lastTS + 1000)
	for _, s := range r.stores {
		require.True(t, s.Recovering())
		for _, p := range s.Peers() {
			require.Zero(t, p.LeaderID, "no peer campaigns by itself")
		}
	}
	r.recoverAll()
	r.flashbackAll(version)
	k = r.client()
	at := k.now()
	for i := range 30 {
		newest, want := uint64(0), ""
		for ts, v := range history[i] {
			if ts <= version && ts > newest {
				newest, want = ts, v
			}
		}
		require.Equal(t, want, k.get(key(i), at), "key %d", i)
	}
	require.Empty(t, k.get(key(30), at))
	// Out of recovery mode the stores elect by themselves.
	for _, s := range r.stores {
		s.Stop()
	}
	r.pd.setRecovering(false)
	r.startAll()
	require.NoError(t, tikvtest.AwaitLeaders(r.ctx(10*time.Second), r.stores...))
	k.put(key(1), []byte("new life"))
}

// copied makes a cluster with a few rows and a copy of it in recovery mode.
func copied(t *testing.T) (*testCluster, *client) {
	t.Helper()
	c := newCluster(t, 3, key(10))
	k := c.client()
	for i := range 20 {
		k.put(key(i), []byte("v"))
	}
	c.settled()
	for _, s := range c.stores {
		s.Kill()
	}
	var images [][]*disk.Image
	for _, v := range c.volumes {
		images = append(images, disk.Cut(v.data, v.log))
	}
	r := c.restore(images)
	r.pd.raiseTS(c.pd.lastTS + 1000)
	return r, r.client()
}

func TestReadRegionMeta_Quirks(t *testing.T) {
	t.Parallel()
	r, _ := copied(t)
	metas := r.metas(r.stores[1])
	require.Len(t, metas, 2)
	require.Less(t, metas[0].RegionId, metas[1].RegionId)
	for i, m := range metas {
		p := r.stores[1].Peers()[i]
		for _, member := range p.Region.Peers {
			require.GreaterOrEqual(t, m.PeerId, member.Id, "the largest peer id of the region")
		}
		require.Zero(t, m.CommitIndex)
		require.False(t, m.Tombstone)
		require.Equal(t, p.Term, m.LastLogTerm)
		require.Equal(t, p.LastIndex, m.LastIndex)
		require.Equal(t, p.Region.StartKey, m.StartKey)
		require.Equal(t, p.Region.EndKey, m.EndKey)
	}
}

func TestRecoverData_NormalMode_Unimplemented(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	_, err := recoverdata.NewRecoverDataClient(dial(t, c.stores[0])).WaitApply(t.Context(), &recoverdata.WaitApplyRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	require.Empty(t, status.Convert(err).Message())
	stream, err := recoverdata.NewRecoverDataClient(dial(t, c.stores[0])).ReadRegionMeta(t.Context(), &recoverdata.ReadRegionMetaRequest{})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Unimplemented, status.Code(err))
	require.Empty(t, status.Convert(err).Message())
}

func TestRecoverRegion_Timing_OneIntervalWithoutTwoWithLeaders(t *testing.T) {
	t.Parallel()
	r, _ := copied(t)
	started := time.Now()
	_, err := recoverRegions(r.ctx(10*time.Second), t, r.stores[0])
	require.NoError(t, err)
	one := time.Since(started)
	require.GreaterOrEqual(t, one, quick.RecoverCheckInterval)
	started = time.Now()
	_, err = recoverRegions(r.ctx(10*time.Second), t, r.stores[0], r.stores[0].Peers()[0].Region.Id)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(started), 2*quick.RecoverCheckInterval)
}

func TestRecoverRegion_UnknownRegion_HangsUntilANewerCall(t *testing.T) {
	t.Parallel()
	r, _ := copied(t)
	hung := make(chan error, 1)
	stream, err := recoverdata.NewRecoverDataClient(dial(t, r.stores[0])).RecoverRegion(r.ctx(20 * time.Second))
	require.NoError(t, err)
	require.NoError(t, stream.Send(&recoverdata.RecoverRegionRequest{RegionId: 4711, AsLeader: true}))
	go func() {
		_, err := stream.CloseAndRecv()
		hung <- err
	}()
	require.Eventually(t, func() bool { return len(r.stores[0].MutatingCalls()) == 1 }, 30*time.Second, time.Millisecond)
	require.Never(t, func() bool { return len(hung) > 0 }, 3*quick.RecoverCheckInterval, 10*time.Millisecond)
	_, err = recoverRegions(r.ctx(10*time.Second), t, r.stores[0])
	require.NoError(t, err)
	require.Equal(t, codes.Aborted, status.Code(<-hung))
}

func TestRecover_StoreRestarted_HasNoLeadersUntilAskedAgain(t *testing.T) {
	t.Parallel()
	r, k := copied(t)
	region := r.stores[0].Peers()[0].Region.Id
	_, err := recoverRegions(r.ctx(10*time.Second), t, r.stores[0], region)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.stores[0].Peers()[0].Serving }, 30*time.Second, time.Millisecond)
	r.stores[0].Kill()
	r.start(0)
	require.Never(t, func() bool {
		for _, s := range r.stores {
			if s.Peers()[0].Leader {
				return true
			}
		}
		return false
	}, time.Second, 10*time.Millisecond)
	_, err = recoverRegions(r.ctx(10*time.Second), t, r.stores[0], region)
	require.NoError(t, err)
	require.Equal(t, "v", k.get(key(15), k.now()))
}

func TestRecoverRegion_ShorterLog_IsNotElected(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	k.put(key(1), []byte("old"))
	c.settled()
	early := disk.Cut(c.volumes[0].data, c.volumes[0].log)
	k.put(key(1), []byte("new"))
	k.put(key(1), []byte("newer"))
	for _, s := range c.stores {
		s.Stop()
	}
	r := c.restore([][]*disk.Image{
		early, disk.Cut(c.volumes[1].data, c.volumes[1].log), disk.Cut(c.volumes[2].data, c.volumes[2].log),
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*quick.RecoverCheckInterval)
	defer cancel()
	_, err := recoverRegions(ctx, t, r.stores[0], r.stores[0].Peers()[0].Region.Id)
	require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	require.False(t, r.stores[0].Peers()[0].Leader)
}
