package tikvtest_test

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// leaseStream is one PrepareSnapshotBackup stream.
type leaseStream struct {
	t *testing.T
	backup.Backup_PrepareSnapshotBackupClient
}

func (c *testCluster) openLease(s *tikvtest.Store) leaseStream {
	c.t.Helper()
	stream, err := backup.NewBackupClient(dial(c.t, s)).PrepareSnapshotBackup(c.ctx(30 * time.Second))
	require.NoError(c.t, err)
	return leaseStream{c.t, stream}
}

func (l leaseStream) ask(req *backup.PrepareSnapshotBackupRequest) *backup.PrepareSnapshotBackupResponse {
	l.t.Helper()
	require.NoError(l.t, l.Send(req))
	resp, err := l.Recv()
	require.NoError(l.t, err)
	return resp
}

func (l leaseStream) renew(seconds uint64) bool {
	l.t.Helper()
	resp := l.ask(&backup.PrepareSnapshotBackupRequest{
		Ty: backup.PrepareSnapshotBackupRequestType_UpdateLease, LeaseInSeconds: seconds})
	require.Equal(l.t, backup.PrepareSnapshotBackupEventType_UpdateLeaseResult, resp.Ty)
	return resp.LastLeaseIsValid
}

func (l leaseStream) waitApply(r *metapb.Region) *backup.PrepareSnapshotBackupResponse {
	l.t.Helper()
	return l.ask(&backup.PrepareSnapshotBackupRequest{
		Ty: backup.PrepareSnapshotBackupRequestType_WaitApply, Regions: []*metapb.Region{r}})
}

func TestLease_RenewAndFinish_ReportWhetherItWasValid(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := c.openLease(c.stores[0])
	require.False(t, l.renew(5))
	require.True(t, l.renew(0), "0 keeps the old deadline")
	require.True(t, l.renew(5))
	resp := l.ask(&backup.PrepareSnapshotBackupRequest{Ty: backup.PrepareSnapshotBackupRequestType_Finish})
	require.True(t, resp.LastLeaseIsValid)
	_, err := l.Recv()
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, []string{"UpdateLease", "UpdateLease", "UpdateLease", "Finish"}, c.stores[0].MutatingCalls())
	l = c.openLease(c.stores[0])
	require.False(t, l.renew(5))
	c.stores[0].DropLease()
	require.False(t, l.renew(5))
}

func TestLease_SecondStream_EndsTheFirstAndInheritsTheLease(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	first := c.openLease(c.stores[0])
	require.False(t, first.renew(10))
	second := c.openLease(c.stores[0])
	require.True(t, second.renew(10))
	_, err := first.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))
	require.Equal(t, "the loop has been aborted by server", status.Convert(err).Message())
	require.True(t, second.renew(10))
}

func TestLease_WaitApply_AnswersForEachRegion(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10))
	leader, kctx := c.leader(key(1))
	l := c.openLease(leader)
	require.False(t, l.renew(10))
	region := &metapb.Region{Id: kctx.RegionId, RegionEpoch: kctx.RegionEpoch}
	c.settled() // all have the region
	resp := l.waitApply(region)
	require.Equal(t, backup.PrepareSnapshotBackupEventType_WaitApplyDone, resp.Ty)
	require.Nil(t, resp.Error)
	require.Equal(t, region.Id, resp.Region.Id)

	resp = l.waitApply(&metapb.Region{Id: 99999})
	require.Equal(t, "region 99999 not found", resp.Error.Message)
	require.NotNil(t, resp.Error.RegionNotFound)

	resp = l.waitApply(&metapb.Region{Id: region.Id})
	require.NotNil(t, resp.Error.EpochNotMatch)
	require.Regexp(t, fmt.Sprintf(`^wait apply has been aborted, perhaps epoch not match or leadership changed, note = Some\(EpochNotMatch\(current_regions \{id: %d .*region_epoch \{conf_ver: 5 version: \d+\} peers \{`, region.Id), resp.Error.Message)
	require.NotContains(t, resp.Error.Message, "but you sent", "the sentence of other requests")
	require.Equal(t, region.Id, resp.Error.EpochNotMatch.CurrentRegions[0].Id)

	require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region", Code: "epoch_not_match"}))
	require.NotNil(t, l.waitApply(region).Error.EpochNotMatch)
	require.Nil(t, l.waitApply(region).Error)
	require.Empty(t, c.faults.Unreached())

	// A store that does not lead the region answers as well.
	for _, s := range c.stores {
		if s != leader {
			f := c.openLease(s)
			require.False(t, f.renew(10))
			require.Nil(t, f.waitApply(region).Error)
		}
	}
}

func TestLease_WaitApplyWithoutLease_EndsTheStream(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	l := c.openLease(c.stores[0])
	require.NoError(t, l.Send(&backup.PrepareSnapshotBackupRequest{Ty: backup.PrepareSnapshotBackupRequestType_WaitApply}))
	_, err := l.Recv()
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.Equal(t, "the lease has expired, you may not send `wait_apply` because it is no meaning", status.Convert(err).Message())
}

func TestLease_WhileValid_AdminIsSuspendedAndWritesGoOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	k := c.client()
	leader, kctx := c.leader(key(1))
	l := c.openLease(leader)
	require.False(t, l.renew(2))
	split := func(at []byte) *kvrpcpb.SplitRegionResponse {
		resp, err := k.on(leader).SplitRegion(t.Context(), &kvrpcpb.SplitRegionRequest{Context: kctx, SplitKeys: [][]byte{at}})
		require.NoError(t, err)
		return resp
	}
	e := split(key(10)).RegionError
	require.Equal(t, `Coprocessor required retry after 1s, hint: "[Suspended] Preparing disk snapshot backup, ingests and some of admin commands are suspended."`, e.Message)
	require.EqualValues(t, 1000, e.ServerIsBusy.BackoffMs)
	require.Error(t, leader.TransferLeader(kctx.RegionId, c.stores[1].ID()))
	k.put(key(1), []byte("v"))
	_ = l.CloseSend() // gone without Finish: the lease runs to its end
	_, err := l.Recv()
	require.Equal(t, codes.Canceled, status.Code(err))
	require.Equal(t, "CANCELLED", status.Convert(err).Message())
	require.NotNil(t, split(key(10)).RegionError)
	require.Eventually(t, func() bool { return split(key(10)).RegionError == nil }, 30*time.Second, 50*time.Millisecond)

	l = c.openLease(leader)
	require.False(t, l.renew(60))
	leader.IgnoreLeaseForSplits(true)
	require.NoError(t, tikvtest.SplitAt(c.ctx(10*time.Second), c.stores, key(20)))
}

func TestTransferLeader_PDOperator_MovesTheLeaderUnlessSuspended(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader, kctx := c.leader(key(1))
	l := c.openLease(leader)
	require.False(t, l.renew(1))
	var to *metapb.Peer
	for _, p := range leader.Peers()[0].Region.Peers {
		if p.StoreId != leader.ID() {
			to = p
		}
	}
	c.pd.setOperator(kctx.RegionId, &pdpb.RegionHeartbeatResponse{TransferLeader: &pdpb.TransferLeader{Peer: to}})
	require.Never(t, func() bool { return !leader.Peers()[0].Leader }, 500*time.Millisecond, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		s, _ := c.leader(key(1))
		return s != nil && s.ID() == to.StoreId
	}, 30*time.Second, 5*time.Millisecond)
}

func TestCheckPendingAdminOp_ListsLedRegions(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, key(10), key(20))
	seen := 0
	for _, s := range c.stores {
		stream, err := backup.NewBackupClient(dial(t, s)).CheckPendingAdminOp(t.Context(), &backup.CheckAdminRequest{})
		require.NoError(t, err)
		for {
			resp, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.False(t, resp.HasPendingAdmin)
			seen++
		}
	}
	require.Equal(t, 3, seen)
}

func TestSuspendImport_AnswersTheStateBefore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	client := import_sstpb.NewImportSSTClient(dial(t, c.stores[0]))
	set := func(suspend bool, seconds uint64) bool {
		resp, err := client.SuspendImportRPC(t.Context(), &import_sstpb.SuspendImportRPCRequest{
			ShouldSuspendImports: suspend, DurationInSecs: seconds, Caller: "test"})
		require.NoError(t, err)
		return resp.AlreadySuspended
	}
	ingest := func() *import_sstpb.IngestResponse {
		_, kctx := c.leader(key(1))
		resp, err := client.Ingest(t.Context(), &import_sstpb.IngestRequest{Context: kctx})
		require.NoError(t, err)
		return resp
	}
	require.False(t, set(false, 0))
	require.Nil(t, ingest().Error)
	require.False(t, set(true, 60))
	require.True(t, set(true, 60))
	require.Contains(t, ingest().Error.Message, "imports are suspended for 59.")
	require.Positive(t, ingest().Error.ServerIsBusy.BackoffMs)
	require.Empty(t, ingest().Error.ServerIsBusy.Reason)
	require.True(t, set(false, 0))
	require.False(t, set(true, 0), "no duration is no suspension")
	require.False(t, set(true, 21_600))
	_, err := client.SuspendImportRPC(t.Context(), &import_sstpb.SuspendImportRPCRequest{ShouldSuspendImports: true, DurationInSecs: 21_601})
	require.Equal(t, codes.Unknown, status.Code(err))
	require.Equal(t, "you are going to suspend the import RPCs too long", status.Convert(err).Message())
	require.True(t, set(false, 0))
	require.Nil(t, ingest().Error)
	l := c.openLease(c.stores[0])
	require.False(t, l.renew(10))
	require.NotNil(t, ingest().Error.ServerIsBusy)
}
