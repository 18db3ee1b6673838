package tikv

import (
	"context"
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// AnyLock asks for one lock of any transaction and kind. TiKV does not raise its max_ts to the largest timestamp, so
// the call leaves no trace.
func (c *Client) AnyLock(ctx context.Context, address string, r cluster.Region) (bool, error) {
	const op = "scan locks"
	keys, err := DecodeRange(r.Keys)
	if err != nil {
		return false, err
	}
	resp, err := c.scanLockInBatch(ctx, op, address, &kvrpcpb.ScanLockRequest{
		Context: contextPB(r), MaxVersion: math.MaxUint64, StartKey: keys.Start, EndKey: keys.End, Limit: 1,
	})
	switch {
	case err != nil:
		return false, err
	case resp.RegionError != nil:
		return false, regionError(r.ID, resp.RegionError)
	case resp.Error.GetLocked() != nil:
		return true, nil
	case resp.Error != nil:
		return false, failure.New(failure.Unknown, op, target(address), "%s", failure.Line(resp.Error.String()))
	}
	return len(resp.Locks) > 0, nil
}
