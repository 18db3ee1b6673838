package tikv_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

const (
	updateLease = backup.PrepareSnapshotBackupRequestType_UpdateLease
	waitApply   = backup.PrepareSnapshotBackupRequestType_WaitApply
	finish      = backup.PrepareSnapshotBackupRequestType_Finish
	leaseResult = backup.PrepareSnapshotBackupEventType_UpdateLeaseResult
)

type prepareStream = backup.Backup_PrepareSnapshotBackupServer

func expect(stream prepareStream, ty backup.PrepareSnapshotBackupRequestType) (*backup.PrepareSnapshotBackupRequest, error) {
	req, err := stream.Recv()
	if err == nil && req.Ty != ty {
		err = status.Errorf(codes.InvalidArgument, "got %s, want %s", req.Ty, ty)
	}
	return req, err
}

func sendResult(stream prepareStream, valid bool) error {
	return stream.Send(&backup.PrepareSnapshotBackupResponse{Ty: leaseResult, LastLeaseIsValid: valid})
}

func sendApplied(stream prepareStream, id uint64, e *errorpb.Error) error {
	return stream.Send(&backup.PrepareSnapshotBackupResponse{Region: &metapb.Region{Id: id}, Error: e})
}

func region(id uint64) cluster.Region {
	return cluster.Region{ID: cluster.RegionID(id), Version: 7, ConfVer: 3}
}

// within is a deadline that a call which works never meets.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func openLease(t *testing.T, prepare func(prepareStream) error) tikv.Lease {
	t.Helper()
	address, client := serve(t, &script{prepare: prepare, pending: noneLed})
	lease, err := client.OpenLease(within(t, 5*time.Second), address)
	require.NoError(t, err)
	t.Cleanup(lease.Close)
	return lease
}

func TestOpenLease_SendsNothingBeforeRenew(t *testing.T) {
	t.Parallel()
	got := make(chan error, 1)
	lease := openLease(t, func(stream prepareStream) error {
		_, err := stream.Recv()
		got <- err
		return err
	})
	select {
	case err := <-got:
		require.Fail(t, "the store saw a message", "%v", err)
	default:
	}
	lease.Close()
	require.Equal(t, codes.Canceled, status.Code(<-got))
}

func TestOpenLease_OutlivesItsContext(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{pending: noneLed, prepare: func(stream prepareStream) error {
		if _, err := expect(stream, updateLease); err != nil {
			return err
		}
		return sendResult(stream, false)
	}})
	ctx, cancel := context.WithCancel(t.Context())
	lease, err := client.OpenLease(ctx, address)
	require.NoError(t, err)
	cancel()
	defer lease.Close()
	_, err = lease.Renew(within(t, 5*time.Second), time.Second)
	require.NoError(t, err)
}

func TestOpenLease_StoreWithoutService_IsUnreadyAndNamesVersions(t *testing.T) {
	t.Parallel()
	address, client := serve(t, &script{pending: noneLed})
	_, err := client.OpenLease(within(t, 5*time.Second), address)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	for _, v := range []string{"v6.5.8", "v7.5.1", "v8.1.0"} {
		require.Contains(t, failure.HintOf(err), v)
	}
}

func TestOpenLease_ConnectionRefused_FailsAtOnce(t *testing.T) {
	t.Parallel()
	_, client := serve(t, &script{})
	_, err := client.OpenLease(within(t, 5*time.Second), "127.0.0.1:1")
	require.Equal(t, failure.Unknown, failure.KindOf(err), "worth another try")
	require.Contains(t, failure.HintOf(err), "pod")
	require.ErrorContains(t, err, "store at 127.0.0.1:1")
}

func TestRenew_Results_AreMatchedInOrder(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	lease := openLease(t, func(stream prepareStream) error {
		first, err := expect(stream, updateLease)
		if err != nil {
			return err
		}
		if first.LeaseInSeconds != 2 {
			return status.Errorf(codes.InvalidArgument, "lease %d", first.LeaseInSeconds)
		}
		<-proceed // the first caller has gone away
		if err := sendResult(stream, false); err != nil {
			return err
		}
		if _, err := expect(stream, updateLease); err != nil {
			return err
		}
		if err := sendResult(stream, true); err != nil {
			return err
		}
		if _, err := expect(stream, finish); err != nil {
			return err
		}
		return sendResult(stream, true)
	})
	_, err := lease.Renew(within(t, time.Second), 1500*time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	close(proceed)
	ctx := within(t, 5*time.Second)
	valid, err := lease.Renew(ctx, time.Second)
	require.NoError(t, err)
	require.True(t, valid, "the late false answer belongs to the call that went away")
	valid, err = lease.Finish(ctx)
	require.NoError(t, err)
	require.True(t, valid)
	_, err = lease.Renew(ctx, time.Second)
	require.Equal(t, failure.Usage, failure.KindOf(err), "closed")
}

func TestWaitApply_AnyOrder_ErrorsByRegion(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	lease := openLease(t, func(stream prepareStream) error {
		req, err := expect(stream, waitApply)
		close(asked)
		if err != nil {
			return err
		}
		for _, r := range req.Regions {
			if r.RegionEpoch.GetVersion() != 7 || r.RegionEpoch.GetConfVer() != 3 {
				return status.Errorf(codes.InvalidArgument, "epoch %v", r.RegionEpoch)
			}
		}
		// A renewal passes the regions that still wait.
		if _, err := expect(stream, updateLease); err != nil {
			return err
		}
		if err := sendResult(stream, true); err != nil {
			return err
		}
		answers := []struct {
			id  uint64
			err *errorpb.Error
		}{
			{3, nil},
			{1, &errorpb.Error{Message: "old", EpochNotMatch: &errorpb.EpochNotMatch{}}},
			{2, nil},
			{4, &errorpb.Error{Message: "gone", RegionNotFound: &errorpb.RegionNotFound{RegionId: 4}}},
		}
		for _, a := range answers {
			if err := sendApplied(stream, a.id, a.err); err != nil {
				return err
			}
		}
		return nil
	})
	var failed map[cluster.RegionID]error
	var applyErr error
	var waiting sync.WaitGroup
	ctx := within(t, 5*time.Second)
	waiting.Go(func() {
		failed, applyErr = lease.WaitApply(ctx, []cluster.Region{region(1), region(2), region(3), region(4)})
	})
	<-asked
	valid, err := lease.Renew(ctx, time.Second)
	require.NoError(t, err)
	require.True(t, valid)
	waiting.Wait()
	require.NoError(t, applyErr)
	require.Len(t, failed, 2)
	var stale *tikv.RegionError
	require.ErrorAs(t, failed[1], &stale)
	require.Equal(t, tikv.RegionStale, stale.Kind)
	require.ErrorContains(t, failed[4], "gone")
}

func TestWaitApply_GivenUp_LateAnswersAreDropped(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	lease := openLease(t, func(stream prepareStream) error {
		for range 2 {
			if _, err := expect(stream, waitApply); err != nil {
				return err
			}
		}
		<-proceed
		// The second request for the region is refused while the first still waits.
		if err := sendApplied(stream, 1, &errorpb.Error{Message: "waits already"}); err != nil {
			return err
		}
		return sendApplied(stream, 1, nil)
	})
	_, err := lease.WaitApply(within(t, time.Second), []cluster.Region{region(1)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(proceed)
	failed, err := lease.WaitApply(within(t, 5*time.Second), []cluster.Region{region(1)})
	require.NoError(t, err)
	require.ErrorContains(t, failed[1], "waits already")
}

func TestWaitApply_ManyRegions_AreSentInBatches(t *testing.T) {
	t.Parallel()
	lease := openLease(t, func(stream prepareStream) error {
		for want := 2500; want > 0; {
			req, err := expect(stream, waitApply)
			if err != nil {
				return err
			}
			want -= len(req.Regions)
			for _, r := range req.Regions {
				if err := sendApplied(stream, r.Id, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
	var regions []cluster.Region
	for i := range uint64(2500) {
		regions = append(regions, region(i+1))
	}
	failed, err := lease.WaitApply(within(t, 10*time.Second), regions)
	require.NoError(t, err)
	require.Empty(t, failed)
}

func TestLease_StreamEndedByStore_ErrorGivesTheReason(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		end  error
		kind failure.Kind
	}{
		{"lost to another client", status.Error(codes.Canceled, "the loop has been aborted by server"), failure.Conflict},
		{"lease expired", status.Error(codes.FailedPrecondition, "the lease has expired"), failure.Unready},
		{"ended without status", nil, failure.Conflict},
		{"store went down", status.Error(codes.Unavailable, "shutting down"), failure.Unknown},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			lease := openLease(t, func(stream prepareStream) error {
				if _, err := expect(stream, waitApply); err != nil {
					return err
				}
				return tc.end
			})
			ctx := within(t, 5*time.Second)
			_, err := lease.WaitApply(ctx, []cluster.Region{region(1)})
			require.Equal(t, tc.kind, failure.KindOf(err), "%v", err)
			_, err = lease.Renew(ctx, time.Second)
			require.Equal(t, tc.kind, failure.KindOf(err), "later calls get the same reason: %v", err)
			_, err = lease.Finish(ctx)
			require.Equal(t, tc.kind, failure.KindOf(err), "%v", err)
		})
	}
}

func TestLease_CauseOfContext_IsKept(t *testing.T) {
	t.Parallel()
	lease := openLease(t, func(stream prepareStream) error {
		<-stream.Context().Done()
		return stream.Context().Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	broken := failure.New(failure.Conflict, "hold", "", "it broke")
	cancel(broken)
	_, err := lease.Renew(ctx, time.Second)
	require.True(t, errors.Is(err, broken))
	require.Equal(t, failure.Conflict, failure.KindOf(err))
}
