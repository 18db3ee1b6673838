package tikvtest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// putAtOnce writes a row by a one-phase commit and returns the commit ts that the store has made.
func (k *client) putAtOnce(key, value []byte, start uint64) (commit uint64) {
	k.do(key, func(ctx context.Context, kv tikvpb.TikvClient, c *kvrpcpb.Context) *errorpb.Error {
		resp, err := kv.KvPrewrite(ctx, &kvrpcpb.PrewriteRequest{
			Context: c, StartVersion: start, PrimaryLock: key, LockTtl: 3000, TryOnePc: true,
			Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key, Value: value}},
		})
		require.NoError(k.c.t, err)
		if resp.RegionError == nil {
			require.Empty(k.c.t, resp.Errors)
			commit = resp.OnePcCommitTs
		}
		return resp.RegionError
	})
	return commit
}

// A leader that has just been elected has not served the reads of the one before: it asks PD, whose timestamps are above all
// that was read at.
func TestOnePhaseCommit_IsAboveAllReads_AlsoThoseOfAnEarlierLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.ResolvedTS", Code: "Unavailable"})) // it asks PD, too
	k := c.client()
	start := k.now()
	read := start + 3600_000<<18
	k.get(key(0), read)
	require.Equal(t, read+1, k.putAtOnce(key(0), []byte("a"), start))
	for i := 1; i < 4; i++ {
		start, read := k.now(), k.now()
		k.get(key(i), read)
		from, _ := c.leader(key(i))
		region := from.Peers()[0].Region
		to := c.stores[(slices.Index(c.stores, from)+1)%3]
		require.NoError(t, from.TransferLeader(region.Id, to.ID()))
		require.Eventually(t, func() bool { return to.Peers()[0].Serving }, 30*time.Second, time.Millisecond)
		require.Greater(t, k.putAtOnce(key(i), []byte("b"), start), read)
	}
}

// What a reader has seen at a timestamp is what it sees there ever after, whatever is committed meanwhile at timestamps
// that PD has not given out.
func TestOnePhaseCommit_BesideReaders_ChangesNoSnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k, writer := c.client(), c.client()
	k.putAtOnce(key(1), []byte("first"), k.now())
	var writers sync.WaitGroup
	ctx, stop := context.WithCancel(c.ctx(60 * time.Second))
	writers.Go(func() {
		last := uint64(0) // PD has not given it out yet, perhaps
		for i := 0; ctx.Err() == nil; i++ {
			last = writer.putAtOnce(key(1), fmt.Append(nil, i), max(writer.now(), last))
		}
	})
	defer writers.Wait()
	defer stop()
	seen := map[uint64]string{}
	for range 200 {
		at := k.now() + 2 // ahead of PD, so that commits come close
		seen[at] = k.get(key(1), at)
	}
	stop()
	writers.Wait()
	for at, value := range seen {
		require.Equal(t, value, k.get(key(1), at), "at %d", at)
	}
}
