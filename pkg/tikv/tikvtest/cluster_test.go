package tikvtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick are intervals that make tests short.
var quick = tikvtest.Options{
	ApplyLag: 3 * time.Millisecond, FlushInterval: 20 * time.Millisecond, TickInterval: 20 * time.Millisecond,
	RecoverCheckInterval: 200 * time.Millisecond, ResolvedTSInterval: 20 * time.Millisecond,
	StoreHeartbeatInterval: 50 * time.Millisecond, RegionHeartbeatInterval: 50 * time.Millisecond,
}

type volumes struct{ data, log *disk.Device }

func newVolumes() volumes { return volumes{disk.New(1 << 30), disk.New(1 << 30)} }

// testCluster is a PD with stores.
type testCluster struct {
	t       *testing.T
	pd      *tinyPD
	net     *tikvtest.Network
	faults  *fault.Plan
	options tikvtest.Options
	stores  []*tikvtest.Store
	volumes []volumes
}

func newCluster(t *testing.T, stores int, keys ...[]byte) *testCluster {
	t.Helper()
	return newClusterWith(t, quick, stores, keys...)
}

func newClusterWith(t *testing.T, options tikvtest.Options, stores int, keys ...[]byte) *testCluster {
	t.Helper()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), faults: &fault.Plan{}, options: options}
	for range stores {
		c.volumes = append(c.volumes, newVolumes())
	}
	c.startAll()
	require.NoError(t, tikvtest.BootstrapCluster(c.ctx(10*time.Second), c.stores...))
	if len(keys) > 0 {
		require.NoError(t, tikvtest.SplitAt(c.ctx(10*time.Second), c.stores, keys...))
	}
	return c
}

// settled waits until all stores have the same logs and have applied them.
func (c *testCluster) settled() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		first := c.stores[0].Peers()
		for i, p := range first {
			for _, s := range c.stores {
				peers := s.Peers()
				if len(peers) != len(first) { // the new region of a split is there after its entry is applied
					return false
				}
				q := peers[i]
				if q.Applied != p.LastIndex || q.LastIndex != p.LastIndex || q.Region.Id != p.Region.Id {
					return false
				}
			}
		}
		return true
	}, 30*time.Second, time.Millisecond)
}

func (c *testCluster) ctx(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(c.t.Context(), d)
	c.t.Cleanup(cancel)
	return ctx
}

func (c *testCluster) startAll() {
	c.t.Helper()
	c.stores = make([]*tikvtest.Store, len(c.volumes))
	for i := range c.volumes {
		c.start(i)
	}
}

func (c *testCluster) start(i int) {
	c.t.Helper()
	s, err := tikvtest.Start(c.ctx(10*time.Second), tikvtest.Config{
		Data: c.volumes[i].data, RaftLog: c.volumes[i].log, PD: c.pd, Network: c.net, Seed: int64(i),
		Faults: c.faults, Options: c.options,
	})
	require.NoError(c.t, err)
	c.t.Cleanup(s.Kill)
	c.stores[i] = s
}

// restore makes a cluster in recovery mode of copies of the volumes.
func (c *testCluster) restore(images [][]*disk.Image) *testCluster {
	c.t.Helper()
	r := &testCluster{t: c.t, pd: newTinyPD(8), net: tikvtest.NewNetwork(), faults: &fault.Plan{}, options: c.options}
	r.pd.recovering = true
	r.pd.nextID = 1_000_000
	for _, pair := range images {
		data, err := disk.FromImage(pair[0], pair[0].Size())
		require.NoError(c.t, err)
		log, err := disk.FromImage(pair[1], pair[1].Size())
		require.NoError(c.t, err)
		r.volumes = append(r.volumes, volumes{data, log})
	}
	r.startAll()
	return r
}

func dial(t *testing.T, s *tikvtest.Store) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// leader finds the store that serves a raw key, and the context for it.
func (c *testCluster) leader(key []byte) (*tikvtest.Store, *kvrpcpb.Context) {
	encoded := mvcc.EncodeKey(key)
	for _, s := range c.stores {
		if gone(s) {
			continue
		}
		for _, p := range s.Peers() {
			if p.Serving && (mvcc.Range{Start: p.Region.StartKey, End: p.Region.EndKey}).Contains(encoded) {
				return s, contextOf(s, p)
			}
		}
	}
	return nil, nil
}

func gone(s *tikvtest.Store) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func contextOf(s *tikvtest.Store, p tikvtest.PeerState) *kvrpcpb.Context {
	return &kvrpcpb.Context{
		RegionId: p.Region.Id, RegionEpoch: p.Region.RegionEpoch, Peer: &metapb.Peer{Id: p.PeerID, StoreId: s.ID()},
	}
}

// client talks to the leaders of a cluster, with retries as client-go has them.
type client struct {
	c     *testCluster
	conns map[string]tikvpb.TikvClient
}

func (c *testCluster) client() *client {
	return &client{c: c, conns: map[string]tikvpb.TikvClient{}}
}

func (k *client) on(s *tikvtest.Store) tikvpb.TikvClient {
	if k.conns[s.Addr()] == nil {
		k.conns[s.Addr()] = tikvpb.NewTikvClient(dial(k.c.t, s))
	}
	return k.conns[s.Addr()]
}

// do runs fn at the leader of a key until it has no region error.
func (k *client) do(key []byte, fn func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context) *errorpb.Error) {
	k.c.t.Helper()
	require.Eventually(k.c.t, func() bool {
		s, kctx := k.c.leader(key)
		if s == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(k.c.t.Context(), 5*time.Second)
		defer cancel()
		return fn(ctx, k.on(s), kctx) == nil
	}, 20*time.Second, time.Millisecond)
}

// put commits a value and returns the commit ts.
func (k *client) put(key, value []byte) uint64 {
	k.c.t.Helper()
	start := k.prewrite(key, value)
	commit := k.now()
	k.do(key, func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context) *errorpb.Error {
		resp, err := kv.KvCommit(ctx, &kvrpcpb.CommitRequest{Context: c, Keys: [][]byte{key}, StartVersion: start, CommitVersion: commit})
		require.NoError(k.c.t, err)
		require.Nil(k.c.t, resp.Error)
		return resp.RegionError
	})
	return commit
}

// prewrite locks a key and returns the start ts.
func (k *client) prewrite(key, value []byte) uint64 {
	k.c.t.Helper()
	start := k.now()
	k.do(key, func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context) *errorpb.Error {
		resp, err := kv.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{
			Context: c, PrimaryLock: key, StartVersion: start, LockTtl: 3600_000,
			Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key, Value: value}},
		})
		require.NoError(k.c.t, err)
		require.Empty(k.c.t, resp.Errors)
		return resp.RegionError
	})
	return start
}

// rollback takes a prewrite back.
func (k *client) rollback(key []byte, start uint64) {
	k.c.t.Helper()
	k.do(key, func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context) *errorpb.Error {
		resp, err := kv.KvBatchRollback(ctx, &kvrpcpb.BatchRollbackRequest{Context: c, Keys: [][]byte{key}, StartVersion: start})
		require.NoError(k.c.t, err)
		require.Nil(k.c.t, resp.Error)
		return resp.RegionError
	})
}

// get reads a key; "" is not there.
func (k *client) get(key []byte, ts uint64) string {
	k.c.t.Helper()
	var value []byte
	k.do(key, func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context) *errorpb.Error {
		resp, err := kv.KvGet(ctx, &kvrpcpb.GetRequest{Context: c, Key: key, Version: ts})
		require.NoError(k.c.t, err)
		require.Nil(k.c.t, resp.Error)
		value = resp.Value
		return resp.RegionError
	})
	return string(value)
}

func (k *client) now() uint64 {
	ts, err := k.c.pd.FreshTS(k.c.t.Context())
	require.NoError(k.c.t, err)
	return ts
}

func key(i int) []byte { return fmt.Appendf(nil, "acct/%04d", i) }
