package tikvtest_test

import (
	"context"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// BenchmarkTransactions runs one-key two-phase commits by 32 clients on 300 regions of three stores.
func BenchmarkTransactions(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	pd, network := newTinyPD(7), tikvtest.NewNetwork()
	var stores []*tikvtest.Store
	for i := range 3 {
		s, err := tikvtest.Start(ctx, tikvtest.Config{
			Data: disk.New(1 << 34), RaftLog: disk.New(1 << 34), PD: pd, Network: network, Seed: int64(i)})
		require.NoError(b, err)
		defer s.Kill()
		stores = append(stores, s)
	}
	require.NoError(b, tikvtest.BootstrapCluster(ctx, stores...))
	var keys [][]byte
	for i := 1; i < 300; i++ {
		keys = append(keys, key(i))
	}
	require.NoError(b, tikvtest.SplitAt(ctx, stores, keys...))
	type target struct {
		kv  tikvpb.TikvClient
		ctx *kvrpcpb.Context
	}
	targets := map[string]target{}
	for _, s := range stores {
		conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		require.NoError(b, err)
		defer conn.Close()
		kv := tikvpb.NewTikvClient(conn)
		for i := range 300 {
			for _, p := range s.Peers() {
				if p.Leader && (mvcc.Range{Start: p.Region.StartKey, End: p.Region.EndKey}).Contains(mvcc.EncodeKey(key(i))) {
					targets[string(key(i))] = target{kv, contextOf(s, p)}
				}
			}
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var retries atomic.Int64
	var wg sync.WaitGroup
	started := time.Now()
	for n := range 32 {
		wg.Go(func() {
			rnd := rand.New(rand.NewSource(int64(n)))
			for left.Add(-1) >= 0 {
				at := key(rnd.Intn(300))
				to := targets[string(at)]
				start, _ := pd.FreshTS(ctx)
				pre, err := to.kv.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{
					Context: to.ctx, PrimaryLock: at, StartVersion: start, LockTtl: 3000,
					Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: at, Value: []byte("some value")}}})
				if err != nil || pre.RegionError != nil || len(pre.Errors) > 0 {
					retries.Add(1)
					continue
				}
				commit, _ := pd.FreshTS(ctx)
				_, _ = to.kv.KvCommit(ctx, &kvrpcpb.CommitRequest{Context: to.ctx, Keys: [][]byte{at}, StartVersion: start, CommitVersion: commit})
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "txn/s")
	b.ReportMetric(float64(retries.Load())/float64(b.N), "retries/txn")
}
