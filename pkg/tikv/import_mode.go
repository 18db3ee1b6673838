package tikv

import (
	"context"

	"github.com/pingcap/kvproto/pkg/import_sstpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ImportMode asks the store for its mode.
func (c *Client) ImportMode(ctx context.Context, address string) (bool, error) {
	conn, err := c.connection(address)
	if err != nil {
		return false, err
	}
	resp, err := import_sstpb.NewImportSSTClient(conn).GetMode(ctx, &import_sstpb.GetModeRequest{})
	if status.Code(err) == codes.Unimplemented {
		return false, nil
	}
	if err != nil {
		return false, translate(ctx, err, "read import mode", address, "")
	}
	return resp.Mode == import_sstpb.SwitchMode_Import, nil
}
