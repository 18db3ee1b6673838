package tikvtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// merging is a cluster of two regions, of which the left one can be merged into the right one.
type merging struct {
	*testCluster
	k              *client
	leader         *tikvtest.Store // of the source
	source, target uint64
}

func newMerging(t *testing.T, check time.Duration) *merging { return newMergingOn(t, 3, check) }

func newMergingOn(t *testing.T, stores int, check time.Duration) *merging {
	t.Helper()
	c := &testCluster{t: t, pd: newTinyPD(7), net: tikvtest.NewNetwork(), faults: &fault.Plan{}, options: quick}
	c.options.MergeCheckInterval = check
	for range stores {
		c.volumes = append(c.volumes, newVolumes())
	}
	c.startAll()
	require.NoError(t, tikvtest.BootstrapCluster(c.ctx(10*time.Second), c.stores...))
	require.NoError(t, tikvtest.SplitAt(c.ctx(10*time.Second), c.stores, key(10)))
	m := &merging{testCluster: c, k: c.client()}
	m.k.put(key(1), []byte("left"))
	m.k.put(key(20), []byte("right"))
	if stores == 3 {
		c.settled()
	}
	leader, kctx := c.leader(key(1))
	_, right := c.leader(key(20))
	m.leader, m.source, m.target = leader, kctx.RegionId, right.RegionId
	return m
}

// soon and never are how often a merge is checked.
const (
	soon  = 10 * time.Millisecond
	never = time.Hour
)

// pending lists the regions that the store of the source's leader calls pending.
func (m *merging) pending() []uint64 {
	m.t.Helper()
	stream, err := backup.NewBackupClient(dial(m.t, m.leader)).CheckPendingAdminOp(m.t.Context(), &backup.CheckAdminRequest{})
	require.NoError(m.t, err)
	var ids []uint64
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return ids
		}
		require.NoError(m.t, err)
		if resp.HasPendingAdmin {
			ids = append(ids, resp.Region.Id)
		}
	}
}

func (m *merging) merged() bool {
	for _, s := range m.stores {
		if len(s.Peers()) != 1 || len(s.Peers()[0].Region.StartKey)+len(s.Peers()[0].Region.EndKey) > 0 {
			return false
		}
	}
	return true
}

func TestMerge_TwoRegions_BecomeOneOnAllStores(t *testing.T) {
	t.Parallel()
	m := newMerging(t, soon)
	before := m.stores[0].Peers()[0].Region.RegionEpoch.Version
	require.NoError(t, m.leader.Merge(t.Context(), m.source, m.target))
	require.Eventually(t, m.merged, 30*time.Second, time.Millisecond)
	require.Equal(t, "left", m.k.get(key(1), m.k.now()))
	require.Equal(t, "right", m.k.get(key(20), m.k.now()))
	m.k.put(key(2), []byte("new"))
	require.Equal(t, m.target, m.stores[0].Peers()[0].Region.Id)
	require.Greater(t, m.stores[0].Peers()[0].Region.RegionEpoch.Version, before+1, "newer than either")
	m.settled()
	for i := range m.stores { // what is on the devices is merged as well
		m.stores[i].Kill()
		m.start(i)
	}
	require.Eventually(t, m.merged, 30*time.Second, time.Millisecond)
	require.Equal(t, "new", m.k.get(key(2), m.k.now()))
}

// TiKV calls a merge pending once PrepareMerge is applied, and not from its proposal.
func TestMerge_ProposedAndNotApplied_IsNotPending(t *testing.T) {
	t.Parallel()
	m := newMerging(t, never)
	require.NoError(t, m.faults.Add(fault.Rule{
		Point: "tikv.*.Apply.PrepareMerge", Position: fault.Slow, Delay: time.Second, Times: -1,
	}))
	require.NoError(t, m.leader.Merge(t.Context(), m.source, m.target))
	require.Eventually(t, func() bool { return len(m.faults.Unreached()) == 0 }, 30*time.Second, time.Millisecond)
	require.Empty(t, m.pending())
	require.Eventually(t, func() bool { return len(m.pending()) == 1 }, 20*time.Second, time.Millisecond)
	require.Equal(t, []uint64{m.source}, m.pending())
	resp, err := m.k.on(m.leader).KvPrewrite(t.Context(), &kvrpcpb.PrewriteRequest{
		Context: m.contextOf(m.source), PrimaryLock: key(1), StartVersion: m.k.now(),
		Mutations: []*kvrpcpb.Mutation{{Op: kvrpcpb.Op_Put, Key: key(1), Value: []byte("x")}},
	})
	require.NoError(t, err)
	require.NotNil(t, resp.RegionError.GetProposalInMergingMode(), "%v", resp.RegionError)
	require.Equal(t, "left", m.k.get(key(1), m.k.now()), "it is still read")
}

// contextOf addresses a region at its leader, as it is now.
func (m *merging) contextOf(region uint64) *kvrpcpb.Context {
	m.t.Helper()
	for _, s := range m.stores {
		for _, p := range s.Peers() {
			if p.Region.Id == region && p.Serving {
				return contextOf(s, p)
			}
		}
	}
	require.Fail(m.t, "no leader")
	return nil
}

// The lease refuses a merge, and lets one that began be completed.
func TestMerge_UnderLease_NoneBeginsAndTheOneUnderWayEnds(t *testing.T) {
	t.Parallel()
	m := newMerging(t, 100*time.Millisecond)
	require.NoError(t, m.leader.Merge(t.Context(), m.source, m.target))
	for _, s := range m.stores {
		require.False(t, m.openLease(s).renew(60))
	}
	require.Eventually(t, m.merged, 30*time.Second, time.Millisecond)
	other := newMerging(t, soon)
	require.False(t, other.openLease(other.leader).renew(60))
	require.ErrorContains(t, other.leader.Merge(t.Context(), other.source, other.target), "[Suspended]")
}

// A lease that comes between the check for one and the proposal refuses it: TiKV's observer stands before the proposal, on
// raft's own thread. A backup that has waited for what was proposed is cut without any region between two.
func TestMerge_LeaseComesAfterTheCheck_IsRefused(t *testing.T) {
	t.Parallel()
	m := newMerging(t, soon)
	require.False(t, m.openLease(m.leader).renew(60))
	require.Contains(t, m.leader.ProposeMerge(m.source, m.target).GetMessage(), "[Suspended]")
	require.Empty(t, m.pending())
}

func TestMerge_TargetSplitMeanwhile_IsRolledBackAlsoUnderLease(t *testing.T) {
	t.Parallel()
	m := newMerging(t, soon)
	// The split is proposed before PrepareMerge is applied, and so before the merge is checked.
	require.NoError(t, m.faults.Add(fault.Rule{
		Point: "tikv.*.Apply.PrepareMerge", Position: fault.Slow, Delay: time.Second, Times: -1,
	}))
	require.NoError(t, m.leader.Merge(t.Context(), m.source, m.target))
	require.NoError(t, tikvtest.SplitAt(m.ctx(10*time.Second), m.stores, key(30)))
	for _, s := range m.stores {
		require.False(t, m.openLease(s).renew(60))
	}
	require.Eventually(t, func() bool { return len(m.pending()) == 0 }, 30*time.Second, time.Millisecond)
	m.k.put(key(1), []byte("again"))
	require.Equal(t, "again", m.k.get(key(1), m.k.now()))
	require.Len(t, m.stores[0].Peers(), 3)
}

// A target that is led from a store that it came to after PrepareMerge refuses the merge, and one that has left all the stores
// that it had then is not waited for.
func TestMerge_TargetMovedMeanwhile_IsRolledBack(t *testing.T) {
	t.Parallel()
	for _, moved := range []int{1, 3} {
		t.Run(fmt.Sprint(moved), func(t *testing.T) {
			t.Parallel()
			m := newMergingOn(t, 3+moved, soon)
			require.NoError(t, m.faults.Add(fault.Rule{Point: "tikv.*.CheckMerge", Code: "Unavailable", Times: -1}))
			require.Eventually(t, func() bool { return m.leader.Merge(t.Context(), m.source, m.target) == nil }, 30*time.Second, time.Millisecond)
			require.Eventually(t, func() bool { return len(m.pending()) == 1 }, 30*time.Second, time.Millisecond)
			for i, to := range m.stores[3:] {
				move := &tikvtest.Move{Region: m.target, From: m.stores[i], To: to}
				require.NoError(t, move.Run(m.ctx(30*time.Second), m.stores...))
			}
			require.Eventually(t, func() bool {
				p, _ := member(m.stores[3], m.target)
				for _, s := range m.stores {
					_ = s.TransferLeader(m.target, m.stores[3].ID()) // refused by those that do not lead it
				}
				return p.Serving
			}, 30*time.Second, 10*time.Millisecond)
			m.faults.Clear()
			require.Eventually(t, func() bool { return len(m.pending()) == 0 }, 30*time.Second, time.Millisecond)
			m.k.put(key(1), []byte("again"))
			require.Equal(t, "again", m.k.get(key(1), m.k.now()))
		})
	}
}

// A wait for a source that is destroyed meanwhile is done.
func TestWaitApply_RegionMergedMeanwhile_IsAnswered(t *testing.T) {
	t.Parallel()
	m := newMerging(t, soon)
	l := m.openLease(m.leader)
	require.False(t, l.renew(60))
	region := &metapb.Region{Id: m.source, RegionEpoch: m.contextOf(m.source).RegionEpoch}
	m.leader.IgnoreLeaseForSplits(true)
	require.NoError(t, m.leader.Merge(t.Context(), m.source, m.target))
	e := l.waitApply(region).Error
	require.True(t, e == nil || e.EpochNotMatch != nil || e.RegionNotFound != nil, "%v", e)
}

// What was proposed just before the lease is waited for, although the store has written nothing of it yet.
func TestWaitApply_MergeIsProposedAndNotYetWritten_IsAwaited(t *testing.T) {
	t.Parallel()
	m := newMerging(t, never)
	region := &metapb.Region{Id: m.source, RegionEpoch: m.contextOf(m.source).RegionEpoch}
	resume := sync.OnceFunc(m.leader.ProposeMergeAndStop(m.source, m.target))
	defer resume()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.Nil(t, m.leader.WaitRegionApplied(ctx, region))
	require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded, "it was answered before the store had seen the proposal")
	resume()
	m.leader.WaitRegionApplied(m.ctx(30*time.Second), region)
	require.Len(t, m.pending(), 1)
}

// What a cut in the middle of a merge costs: the source refuses to be prepared, and the prepared target refuses to
// take it in, for ever.
func TestRestore_MergeInTheCut_NeitherRegionGetsOn(t *testing.T) {
	t.Parallel()
	m := newMerging(t, never)
	require.NoError(t, m.leader.Merge(t.Context(), m.source, m.target))
	require.Eventually(t, func() bool { return len(m.pending()) == 1 }, 30*time.Second, time.Millisecond)
	m.settled()
	var images [][]*disk.Image
	for i, s := range m.stores {
		s.Stop()
		images = append(images, disk.Cut(m.volumes[i].data, m.volumes[i].log))
	}
	m.options.MergeCheckInterval = 300 * time.Millisecond
	r := &merging{testCluster: m.restore(images), source: m.source, target: m.target}
	r.k, r.leader = r.client(), r.stores[0]
	_, err := recoverRegions(r.ctx(20*time.Second), t, r.stores[0], r.target)
	require.NoError(t, err)
	prepare := func(region uint64) *kvrpcpb.PrepareFlashbackToVersionResponse {
		from, to := r.rawRange(region)
		resp, err := r.k.on(r.stores[0]).KvPrepareFlashbackToVersion(t.Context(), &kvrpcpb.PrepareFlashbackToVersionRequest{
			Context: r.contextOf(region), StartKey: from, EndKey: to, StartTs: r.k.now(),
		})
		require.NoError(t, err)
		return resp
	}
	require.Nil(t, prepare(r.target).RegionError)
	_, err = recoverRegions(r.ctx(time.Second), t, r.stores[0], r.source)
	require.NoError(t, err)
	require.NotNil(t, prepare(r.source).RegionError.GetProposalInMergingMode())
	checks := func() int { return r.proposals(r.target) }
	from := checks()
	require.Eventually(t, func() bool { return checks() >= from+2 }, 30*time.Second, 5*time.Millisecond, "CommitMerge is proposed again and again")
	require.Len(t, r.stores[0].Peers(), 2)
	require.Equal(t, []uint64{r.source}, r.pending())
}

// proposals is how long the log of a region is.
func (m *merging) proposals(region uint64) int {
	for _, p := range m.stores[0].Peers() {
		if p.Region.Id == region {
			return int(p.LastIndex)
		}
	}
	return 0
}
