package tikv_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a TiKV that answers with what a test gives it. A part that is nil is Unimplemented.
type script struct {
	tikvpb.UnimplementedTikvServer

	prepare     func(backup.Backup_PrepareSnapshotBackupServer) error
	pending     func(backup.Backup_CheckPendingAdminOpServer) error
	suspend     func(*import_sstpb.SuspendImportRPCRequest) *import_sstpb.SuspendImportRPCResponse
	metas       func(recoverdata.RecoverData_ReadRegionMetaServer) error
	recover     func(plan []*recoverdata.RecoverRegionRequest) error
	waitApply   func(*recoverdata.WaitApplyRequest) error
	prepareBack func(*kvrpcpb.PrepareFlashbackToVersionRequest) *kvrpcpb.PrepareFlashbackToVersionResponse
	flashBack   func(*kvrpcpb.FlashbackToVersionRequest) *kvrpcpb.FlashbackToVersionResponse
	scanLock    func(*kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse
	batch       func(tikvpb.Tikv_BatchCommandsServer) error
}

type backupScript struct {
	*backup.UnimplementedBackupServer
	*script
}

func (s backupScript) PrepareSnapshotBackup(stream backup.Backup_PrepareSnapshotBackupServer) error {
	if s.prepare == nil {
		return s.UnimplementedBackupServer.PrepareSnapshotBackup(stream)
	}
	return s.prepare(stream)
}

func (s backupScript) CheckPendingAdminOp(
	req *backup.CheckAdminRequest, stream backup.Backup_CheckPendingAdminOpServer,
) error {
	if s.pending == nil {
		return s.UnimplementedBackupServer.CheckPendingAdminOp(req, stream)
	}
	return s.pending(stream)
}

type importScript struct {
	*import_sstpb.UnimplementedImportSSTServer
	*script
}

func (s importScript) SuspendImportRPC(
	_ context.Context, req *import_sstpb.SuspendImportRPCRequest,
) (*import_sstpb.SuspendImportRPCResponse, error) {
	return s.suspend(req), nil
}

type recoverScript struct {
	*recoverdata.UnimplementedRecoverDataServer
	*script
}

func (s recoverScript) ReadRegionMeta(
	req *recoverdata.ReadRegionMetaRequest, stream recoverdata.RecoverData_ReadRegionMetaServer,
) error {
	if s.metas == nil {
		return s.UnimplementedRecoverDataServer.ReadRegionMeta(req, stream)
	}
	return s.metas(stream)
}

func (s recoverScript) RecoverRegion(stream recoverdata.RecoverData_RecoverRegionServer) error {
	var plan []*recoverdata.RecoverRegionRequest
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		plan = append(plan, req)
	}
	if err := s.recover(plan); err != nil {
		return err
	}
	return stream.SendAndClose(&recoverdata.RecoverRegionResponse{StoreId: 1})
}

func (s recoverScript) WaitApply(
	_ context.Context, req *recoverdata.WaitApplyRequest,
) (*recoverdata.WaitApplyResponse, error) {
	return &recoverdata.WaitApplyResponse{}, s.waitApply(req)
}

// KvPrepareFlashbackToVersion answers by the script.
func (s *script) KvPrepareFlashbackToVersion(
	_ context.Context, req *kvrpcpb.PrepareFlashbackToVersionRequest,
) (*kvrpcpb.PrepareFlashbackToVersionResponse, error) {
	return s.prepareBack(req), nil
}

// KvFlashbackToVersion answers by the script.
func (s *script) KvFlashbackToVersion(
	_ context.Context, req *kvrpcpb.FlashbackToVersionRequest,
) (*kvrpcpb.FlashbackToVersionResponse, error) {
	return s.flashBack(req), nil
}

// BatchCommands serves by the script.
func (s *script) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	if s.batch == nil {
		return s.UnimplementedTikvServer.BatchCommands(stream)
	}
	return s.batch(stream)
}

// serve starts the script and returns its address and a client.
func serve(t *testing.T, s *script, opts ...grpc.ServerOption) (string, *tikv.Client) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback listener of a test
	require.NoError(t, err)
	srv := grpc.NewServer(opts...)
	backup.RegisterBackupServer(srv, backupScript{script: s})
	import_sstpb.RegisterImportSSTServer(srv, importScript{script: s})
	recoverdata.RegisterRecoverDataServer(srv, recoverScript{script: s})
	tikvpb.RegisterTikvServer(srv, s)
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(lis) })
	client := tikv.Open(tikv.Config{})
	t.Cleanup(func() {
		client.Close()
		srv.Stop()
		serving.Wait()
	})
	return lis.Addr().String(), client
}

// noneLed answers CheckPendingAdminOp as a store does that leads nothing.
func noneLed(backup.Backup_CheckPendingAdminOpServer) error { return nil }
