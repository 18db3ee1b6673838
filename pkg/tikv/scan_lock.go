package tikv

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// lockPage is the number of locks per call after a first one that does not count.
const lockPage = 256

// FirstLock asks the region's leader for a lock whose transaction may commit at or below ts, and returns its start ts,
// or 0 if there is none. From then on the leader lets no new transaction commit at or below ts. Locks that write
// nothing yet, such as pessimistic ones, and one that began at ts itself do not count: they commit above it.
func (c *Client) FirstLock(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (cluster.TS, error) {
	const op = "scan locks"
	conn, err := c.connection(address)
	if err != nil {
		return 0, err
	}
	keys, err := DecodeRange(r.Keys)
	if err != nil {
		return 0, err
	}
	for limit := uint32(1); ; limit = lockPage {
		resp, err := tikvpb.NewTikvClient(conn).KvScanLock(ctx, &kvrpcpb.ScanLockRequest{
			Context: contextPB(r), MaxVersion: uint64(ts), StartKey: keys.Start, EndKey: keys.End, Limit: limit,
		})
		switch {
		case err != nil:
			return 0, translate(ctx, err, op, address, "")
		case resp.RegionError != nil:
			return 0, regionError(r.ID, resp.RegionError)
		case resp.Error.GetLocked() != nil: // only in memory: an async commit in progress
			return cluster.TS(resp.Error.Locked.LockVersion), nil
		case resp.Error != nil:
			return 0, failure.New(failure.Unknown, op, target(address), "%s", resp.Error)
		}
		for _, lock := range resp.Locks {
			if counts(lock, ts) {
				return cluster.TS(lock.LockVersion), nil
			}
		}
		if len(resp.Locks) < int(limit) {
			return 0, nil
		}
		keys.Start = append(append([]byte(nil), resp.Locks[len(resp.Locks)-1].Key...), 0)
	}
}

// counts reports whether the lock may commit at or below ts. The resolved ts may equal the start of the oldest
// transaction, which commits above it.
func counts(lock *kvrpcpb.LockInfo, ts cluster.TS) bool {
	writes := lock.LockType != kvrpcpb.Op_PessimisticLock && lock.LockType != kvrpcpb.Op_Lock
	return writes && lock.LockVersion < uint64(ts)
}
