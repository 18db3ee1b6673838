package tikvtest_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// metas reads a store's region metas.
func (c *testCluster) metas(s *tikvtest.Store) []*recoverdata.RegionMeta {
	c.t.Helper()
	stream, err := recoverdata.NewRecoverDataClient(dial(c.t, s)).ReadRegionMeta(
		c.ctx(10*time.Second), &recoverdata.ReadRegionMetaRequest{StoreId: 99})
	require.NoError(c.t, err)
	var list []*recoverdata.RegionMeta
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(c.t, err)
		list = append(list, m)
	}
}

// plan chooses the peer with the longest log of each region.
func (c *testCluster) plan() map[*tikvtest.Store][]uint64 {
	c.t.Helper()
	best := map[uint64]*recoverdata.RegionMeta{}
	on := map[uint64]*tikvtest.Store{}
	for _, s := range c.stores {
		for _, m := range c.metas(s) {
			b := best[m.RegionId]
			if b == nil || m.LastLogTerm > b.LastLogTerm || (m.LastLogTerm == b.LastLogTerm && m.LastIndex > b.LastIndex) {
				best[m.RegionId], on[m.RegionId] = m, s
			}
		}
	}
	plan := map[*tikvtest.Store][]uint64{}
	for id, s := range on {
		plan[s] = append(plan[s], id)
	}
	return plan
}

// recoverRegions sends RecoverRegion and waits for the answer.
func recoverRegions(ctx context.Context, t *testing.T, s *tikvtest.Store, regions ...uint64) (*recoverdata.RecoverRegionResponse, error) {
	t.Helper()
	stream, err := recoverdata.NewRecoverDataClient(dial(t, s)).RecoverRegion(ctx)
	require.NoError(t, err)
	for _, id := range regions {
		require.NoError(t, stream.Send(&recoverdata.RecoverRegionRequest{RegionId: id, AsLeader: true}))
	}
	return stream.CloseAndRecv()
}

// recoverAll chooses leaders on all stores and waits for them.
func (c *testCluster) recoverAll() {
	c.t.Helper()
	plan := c.plan()
	var wg sync.WaitGroup
	for _, s := range c.stores {
		wg.Go(func() {
			resp, err := recoverRegions(c.ctx(20*time.Second), c.t, s, plan[s]...)
			if err != nil || resp.StoreId != s.ID() {
				c.t.Errorf("recover store %d: %v %v", s.ID(), resp, err)
			}
		})
	}
	wg.Wait()
}

// flashbackAll returns all regions to version.
func (c *testCluster) flashbackAll(version uint64) (start, commit uint64) {
	c.t.Helper()
	k := c.client()
	start, commit = k.now(), k.now()
	c.eachLeader(func(ctx context.Context, kv tikvpb.TikvClient, kctx *kvrpcpb.Context, from, to []byte) *errorpb.Error {
		resp, err := kv.KvPrepareFlashbackToVersion(ctx, &kvrpcpb.PrepareFlashbackToVersionRequest{
			Context: kctx, StartKey: from, EndKey: to, StartTs: start, Version: version})
		require.NoError(c.t, err)
		return resp.RegionError
	})
	c.eachLeader(func(ctx context.Context, kv tikvpb.TikvClient, kctx *kvrpcpb.Context, from, to []byte) *errorpb.Error {
		resp, err := kv.KvFlashbackToVersion(ctx, &kvrpcpb.FlashbackToVersionRequest{
			Context: kctx, StartKey: from, EndKey: to, StartTs: start, CommitTs: commit, Version: version})
		require.NoError(c.t, err)
		require.Empty(c.t, resp.Error)
		return resp.RegionError
	})
	return start, commit
}

// eachLeader calls fn with every region's leader and the region's raw range.
func (c *testCluster) eachLeader(fn func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context, from, to []byte) *errorpb.Error) {
	c.t.Helper()
	k := c.client()
	for _, s := range c.stores {
		for _, p := range s.Peers() {
			if p.Leader {
				e := fn(c.ctx(10*time.Second), k.on(s), contextOf(s, p), rawKey(p.Region.StartKey), rawKey(p.Region.EndKey))
				require.Nil(c.t, e)
			}
		}
	}
}

func rawKey(encoded []byte) []byte {
	if len(encoded) == 0 {
		return nil
	}
	return mvcc.DecodeKey(encoded)
}
