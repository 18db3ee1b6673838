package tikv_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"testing"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestLedRegions_ListsAllAndThosePending(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{pending: func(stream backup.Backup_CheckPendingAdminOpServer) error {
		for i := range uint64(5) {
			err := stream.Send(&backup.CheckAdminResponse{Region: &metapb.Region{
				Id: i + 1, StartKey: []byte{byte(i)}, EndKey: []byte{byte(i + 1)}, RegionEpoch: &metapb.RegionEpoch{Version: 7, ConfVer: 5},
				Peers: []*metapb.Peer{{Id: 9, StoreId: 3, Role: metapb.PeerRole_Learner}},
			}, HasPendingAdmin: i%2 == 1})
			if err != nil {
				return err
			}
		}
		return nil
	}})
	led, pending, err := client.LedRegions(within(t, 5*time.Second), address)
	require.NoError(t, err)
	require.Equal(t, []cluster.RegionID{2, 4}, pending)
	require.Len(t, led, 5)
	require.Equal(t, cluster.Region{
		ID: 2, Keys: cluster.KeyRange{Start: []byte{1}, End: []byte{2}}, Version: 7, ConfVer: 5, Peers: []cluster.Peer{{ID: 9, Store: 3, Learner: true}},
	}, led[1])
}

func TestSuspendImport_RoundsUpAndReportsBefore(t *testing.T) {
	t.Parallel()
	suspended := false
	var seen []*import_sstpb.SuspendImportRPCRequest
	address, client := serve(t, &script{
		suspend: func(req *import_sstpb.SuspendImportRPCRequest) *import_sstpb.SuspendImportRPCResponse {
			before := suspended
			suspended = req.ShouldSuspendImports
			seen = append(seen, req)
			return &import_sstpb.SuspendImportRPCResponse{AlreadySuspended: before}
		},
	})
	ctx := within(t, 5*time.Second)
	already, err := client.SuspendImport(ctx, address, "run-1", 1001*time.Millisecond)
	require.NoError(t, err)
	require.False(t, already)
	already, err = client.ResumeImport(ctx, address, "run-1")
	require.NoError(t, err)
	require.True(t, already)
	require.Equal(t, uint64(2), seen[0].DurationInSecs)
	require.Equal(t, "run-1", seen[0].Caller)
	require.False(t, seen[1].ShouldSuspendImports)
}

func TestRegionMetas_StreamsInOrderAndStopsOnError(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{metas: func(stream recoverdata.RecoverData_ReadRegionMetaServer) error {
		for i := range uint64(3) {
			err := stream.Send(&recoverdata.RegionMeta{
				RegionId: i + 1, PeerId: 9, LastLogTerm: 5, LastIndex: 100 + i, Version: 2,
				StartKey: []byte{byte(i)}, EndKey: []byte{byte(i + 1)},
			})
			if err != nil {
				return err
			}
		}
		return nil
	}})
	ctx := within(t, 5*time.Second)
	var metas []tikv.RegionMeta
	require.NoError(t, client.RegionMetas(ctx, address, func(m tikv.RegionMeta) error {
		m.Keys = cluster.KeyRange{Start: bytes.Clone(m.Keys.Start), End: bytes.Clone(m.Keys.End)}
		metas = append(metas, m)
		return nil
	}))
	require.Len(t, metas, 3)
	require.Equal(t, tikv.RegionMeta{
		Region: 2, PeerID: 9, LastLogTerm: 5, LastIndex: 101, Version: 2, Keys: cluster.KeyRange{Start: []byte{1}, End: []byte{2}},
	}, metas[1])
	enough := errors.New("enough")
	require.Equal(t, enough, client.RegionMetas(ctx, address, func(tikv.RegionMeta) error { return enough }))
}

func TestRegionMetas_OutsideRecoveryMode_IsUnready(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{})
	err := client.RegionMetas(within(t, 5*time.Second), address, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "recovering")
}

func TestRecover_SendsWholePlanThenWaits(t *testing.T) {
	t.Parallel()
	var got []*recoverdata.RecoverRegionRequest
	end := error(nil)
	address, client := serve(t, &script{
		recover:   func(plan []*recoverdata.RecoverRegionRequest) error { got = plan; return end },
		waitApply: func(*recoverdata.WaitApplyRequest) error { return nil },
	})
	ctx := within(t, 5*time.Second)
	plan := []tikv.Command{{Region: 1, AsLeader: true}, {Region: 2}}
	require.NoError(t, client.Recover(ctx, address, plan))
	require.Len(t, got, 2)
	require.True(t, got[0].AsLeader)
	require.False(t, got[1].AsLeader)
	require.NoError(t, client.WaitApply(ctx, address, 1))
	end = status.Error(codes.Aborted, "")
	err := client.Recover(ctx, address, plan)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "another Recover took over: %v", err)
}

func TestRecover_StoreThatNeverAnswers_EndsWithContext(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	address, client := serve(t, &script{recover: func([]*recoverdata.RecoverRegionRequest) error { <-stop; return nil }})
	err := client.Recover(within(t, 50*time.Millisecond), address, nil)
	close(stop)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
}

func flashback() tikv.Flashback {
	return tikv.Flashback{
		Region: cluster.Region{ID: 5, ConfVer: 3, Version: 7, Leader: cluster.Peer{ID: 51, Store: 1}},
		Keys:   cluster.RawRange{Start: []byte("a"), End: []byte("b")}, Version: 10, StartTS: 20, CommitTS: 30,
	}
}

func TestFlashback_RequestNamesLeaderEpochAndRawKeys(t *testing.T) {
	t.Parallel()
	var prepare *kvrpcpb.PrepareFlashbackToVersionRequest
	var flash *kvrpcpb.FlashbackToVersionRequest
	address, client := serve(t, &script{
		prepareBack: func(req *kvrpcpb.PrepareFlashbackToVersionRequest) *kvrpcpb.PrepareFlashbackToVersionResponse {
			prepare = req
			return &kvrpcpb.PrepareFlashbackToVersionResponse{}
		},
		flashBack: func(req *kvrpcpb.FlashbackToVersionRequest) *kvrpcpb.FlashbackToVersionResponse {
			flash = req
			return &kvrpcpb.FlashbackToVersionResponse{}
		},
	})
	ctx := within(t, 5*time.Second)
	require.NoError(t, client.PrepareFlashback(ctx, address, flashback()))
	require.NoError(t, client.Flashback(ctx, address, flashback()))
	require.Equal(t, uint64(51), prepare.Context.Peer.Id)
	require.Equal(t, uint64(1), prepare.Context.Peer.StoreId)
	require.Equal(t, uint64(7), prepare.Context.RegionEpoch.Version)
	require.Equal(t, uint64(20), prepare.StartTs)
	require.Equal(t, uint64(10), prepare.Version)
	require.Equal(t, []byte("a"), flash.StartKey)
	require.Equal(t, []byte("b"), flash.EndKey)
	require.Equal(t, uint64(30), flash.CommitTs)
}

func TestFlashback_ErrorsInside_AreReported(t *testing.T) {
	t.Parallel()
	resp := &kvrpcpb.FlashbackToVersionResponse{
		RegionError: &errorpb.Error{FlashbackNotPrepared: &errorpb.FlashbackNotPrepared{RegionId: 5}},
	}
	address, client := serve(t, &script{
		flashBack: func(*kvrpcpb.FlashbackToVersionRequest) *kvrpcpb.FlashbackToVersionResponse { return resp },
	})
	ctx := within(t, 5*time.Second)
	var regionErr *tikv.RegionError
	require.ErrorAs(t, client.Flashback(ctx, address, flashback()), &regionErr)
	require.Equal(t, tikv.RegionNotPrepared, regionErr.Kind)
	require.NotEmpty(t, regionErr.Message, "TiKV sends none")
	resp = &kvrpcpb.FlashbackToVersionResponse{Error: "Invalid transaction tso"}
	require.Equal(t, failure.Usage, failure.KindOf(client.Flashback(ctx, address, flashback())))
}

func TestFlashback_TimestampsOutOfOrder_AreNotSent(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{}) // a call would be a nil function
	for _, change := range []func(*tikv.Flashback){
		func(f *tikv.Flashback) { f.Version = 0 },
		func(f *tikv.Flashback) { f.Version = f.StartTS },
		func(f *tikv.Flashback) { f.CommitTS = f.StartTS },
	} {
		f := flashback()
		change(&f)
		require.Equal(t, failure.Usage, failure.KindOf(client.Flashback(t.Context(), address, f)))
	}
}

func TestClient_WrongTLS_IsDenied(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, &script{pending: noneLed})
	client := tikv.Open(tikv.Config{TLS: &tls.Config{MinVersion: tls.VersionTLS12}})
	defer client.Close()
	ctx := within(t, 5*time.Second)
	require.Eventually(t, func() bool {
		_, _, err := client.LedRegions(ctx, address)
		return failure.KindOf(err) == failure.Denied
	}, 30*time.Second, 10*time.Millisecond)
}

func TestClient_Closed_RefusesCalls(t *testing.T) {
	t.Parallel()
	client := tikv.Open(tikv.Config{})
	client.Close()
	client.Close()
	_, _, err := client.LedRegions(t.Context(), "127.0.0.1:1")
	require.Equal(t, failure.Usage, failure.KindOf(err))
}
