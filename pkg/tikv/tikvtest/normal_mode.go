package tikvtest

import (
	"context"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errNotRecovering is the answer of RecoverData outside recovery mode: TiKV gives no text.
var errNotRecovering = status.Error(codes.Unimplemented, "")

// normalMode serves recover_data.RecoverData outside recovery mode.
type normalMode struct {
	recoverdata.UnimplementedRecoverDataServer
}

// ReadRegionMeta implements recover_data.RecoverDataServer.
func (*normalMode) ReadRegionMeta(*recoverdata.ReadRegionMetaRequest, recoverdata.RecoverData_ReadRegionMetaServer) error {
	return errNotRecovering
}

// RecoverRegion implements recover_data.RecoverDataServer.
func (*normalMode) RecoverRegion(recoverdata.RecoverData_RecoverRegionServer) error {
	return errNotRecovering
}

// WaitApply implements recover_data.RecoverDataServer.
func (*normalMode) WaitApply(context.Context, *recoverdata.WaitApplyRequest) (*recoverdata.WaitApplyResponse, error) {
	return nil, errNotRecovering
}
