package tikvtest_test

import (
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// flash holds what flashback calls of one region need.
type flash struct {
	t *testing.T
	c *testCluster
	k *client
}

func (f flash) prepare(start uint64) *kvrpcpb.PrepareFlashbackToVersionResponse {
	f.t.Helper()
	s, kctx := f.c.leader(key(1))
	from, to := f.c.rawRange(kctx.RegionId)
	resp, err := f.k.on(s).KvPrepareFlashbackToVersion(f.t.Context(),
		&kvrpcpb.PrepareFlashbackToVersionRequest{Context: kctx, StartKey: from, EndKey: to, StartTs: start})
	require.NoError(f.t, err)
	return resp
}

func (f flash) flash(version, start, commit uint64) *kvrpcpb.FlashbackToVersionResponse {
	f.t.Helper()
	s, kctx := f.c.leader(key(1))
	from, to := f.c.rawRange(kctx.RegionId)
	resp, err := f.k.on(s).KvFlashbackToVersion(f.t.Context(), &kvrpcpb.FlashbackToVersionRequest{
		Context: kctx, StartKey: from, EndKey: to, Version: version, StartTs: start, CommitTs: commit})
	require.NoError(f.t, err)
	return resp
}

func (f flash) ok(version, start, commit uint64) {
	f.t.Helper()
	resp := f.flash(version, start, commit)
	require.Nil(f.t, resp.RegionError)
	require.Empty(f.t, resp.Error)
}

// rawRange is the range of a region in raw keys.
func (c *testCluster) rawRange(region uint64) (from, to []byte) {
	for _, p := range c.stores[0].Peers() {
		if p.Region.Id == region {
			return rawKey(p.Region.StartKey), rawKey(p.Region.EndKey)
		}
	}
	return nil, nil
}

func newFlash(t *testing.T) flash {
	c := newCluster(t, 3)
	return flash{t, c, c.client()}
}

func TestFlashback_OneRegion_ReturnsToVersionAndIsIdempotent(t *testing.T) {
	t.Parallel()
	f := newFlash(t)
	f.k.put(key(1), []byte("old"))
	version := f.k.now()
	f.k.put(key(1), []byte("new"))
	f.k.put(key(2), []byte("gone"))
	start, commit := f.k.now(), f.k.now()
	require.NotNil(t, f.flash(version, start, commit).RegionError.FlashbackNotPrepared)
	require.Empty(t, f.flash(version, start, commit).RegionError.Message)
	require.Nil(t, f.prepare(start-1).RegionError)
	require.Nil(t, f.prepare(start).RegionError, "the newer start_ts takes over")
	require.Nil(t, f.prepare(start).RegionError)
	require.NotNil(t, f.flash(version, start-1, commit).RegionError.FlashbackNotPrepared)
	require.Contains(t, f.flash(version, start, start).Error, "Invalid transaction tso")
	f.ok(version, start, commit)
	require.Equal(t, "old", f.k.get(key(1), f.k.now()))
	require.Empty(t, f.k.get(key(2), f.k.now()))
	require.Equal(t, "new", f.k.get(key(1), start-1), "history stays")

	f.ok(version, start, commit)
	f.ok(version+1, start, commit)
	require.NotNil(t, f.flash(version, start, commit+1).RegionError.FlashbackNotPrepared)
	require.NotNil(t, f.flash(version, start+1, commit+2).RegionError.FlashbackNotPrepared)
	require.Nil(t, f.prepare(start).RegionError)
	f.ok(version, start, commit)
	require.Equal(t, "old", f.k.get(key(1), f.k.now()))
}

func TestFlashback_PreparedRegion_BlocksAllButOlderReads(t *testing.T) {
	t.Parallel()
	f := newFlash(t)
	f.k.put(key(1), []byte("v"))
	start := f.k.now()
	require.Nil(t, f.prepare(start).RegionError)
	s, kctx := f.c.leader(key(1))
	kv := f.k.on(s)
	get, err := kv.KvGet(t.Context(), &kvrpcpb.GetRequest{Context: kctx, Key: key(1), Version: start})
	require.NoError(t, err)
	require.Equal(t, start, get.RegionError.FlashbackInProgress.FlashbackStartTs)
	require.Contains(t, get.RegionError.Message, "is in the flashback progress with start_ts")
	get, err = kv.KvGet(t.Context(), &kvrpcpb.GetRequest{Context: kctx, Key: key(1), Version: start - 1})
	require.NoError(t, err)
	require.Equal(t, "v", string(get.Value))
	pre, err := kv.KvPrewrite(t.Context(), &kvrpcpb.PrewriteRequest{Context: kctx, StartVersion: start + 9, PrimaryLock: key(1),
		Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key(1)}}})
	require.NoError(t, err)
	require.NotNil(t, pre.RegionError.FlashbackInProgress)
	split, err := kv.SplitRegion(t.Context(), &kvrpcpb.SplitRegionRequest{Context: kctx, SplitKeys: [][]byte{key(1)}})
	require.NoError(t, err)
	require.NotNil(t, split.RegionError.FlashbackInProgress)

	// A follower reports that before it reports that it does not lead.
	f.c.settled()
	for _, other := range f.c.stores {
		if other == s {
			continue
		}
		c := contextOf(other, other.Peers()[0])
		get, err := f.k.on(other).KvGet(t.Context(), &kvrpcpb.GetRequest{Context: c, Key: key(1), Version: start})
		require.NoError(t, err)
		require.NotNil(t, get.RegionError.FlashbackInProgress)
		resp, err := f.k.on(other).KvFlashbackToVersion(t.Context(), &kvrpcpb.FlashbackToVersionRequest{Context: c, StartTs: start, CommitTs: start + 1})
		require.NoError(t, err)
		require.NotNil(t, resp.RegionError.NotLeader)
	}

	// The state is on the volumes.
	for _, s := range f.c.stores {
		s.Kill()
	}
	f.c.startAll()
	require.NoError(t, tikvtest.AwaitLeaders(f.c.ctx(10*time.Second), f.c.stores...))
	require.NotZero(t, f.c.stores[0].Peers()[0].Region.FlashbackStartTs)
	f.ok(start-1, start, f.k.now())
	require.Equal(t, "v", f.k.get(key(1), f.k.now()))
}

func TestFlashback_EmptyRegion_AnyCommitTSIsRight(t *testing.T) {
	t.Parallel()
	f := newFlash(t)
	start := f.k.now()
	require.Nil(t, f.prepare(start).RegionError)
	f.ok(start-1, start, start+1)
	f.ok(start-1, start, start+2)
}

func TestFlashback_CommitTSBelowTheData_KillsTheStore(t *testing.T) {
	t.Parallel()
	f := newFlash(t)
	version := f.k.now()
	f.k.now() // or the row's commit ts might be version+2
	f.k.put(key(1), []byte("v"))
	require.Nil(t, f.prepare(version+1).RegionError)
	s, kctx := f.c.leader(key(1))
	_, err := f.k.on(s).KvFlashbackToVersion(t.Context(), &kvrpcpb.FlashbackToVersionRequest{
		Context: kctx, Version: version, StartTs: version + 1, CommitTs: version + 2})
	require.Error(t, err)
	<-s.Done()
	require.ErrorContains(t, s.Err(), "assertion failed: latest_commit_ts <= flashback_commit_ts")
}

func TestRecoverRegion_RegionPreparedForFlashback_HangsUntilFlashed(t *testing.T) {
	t.Parallel()
	r, k := copied(t)
	r.recoverAll()
	s, kctx := r.leader(key(1))
	f := flash{t, r, k}
	start := k.now()
	require.Nil(t, f.prepare(start).RegionError)
	answered := make(chan error, 1)
	ctx := r.ctx(20 * time.Second)
	go func() {
		_, err := recoverRegions(ctx, t, s, kctx.RegionId)
		answered <- err
	}()
	require.Never(t, func() bool { return len(answered) > 0 }, 4*quick.RecoverCheckInterval, 10*time.Millisecond)
	f.ok(start-1, start, k.now())
	require.NoError(t, <-answered)
}
