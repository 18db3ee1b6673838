package workload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/config/retry"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

const (
	scanBatch   = 1024
	scanTimeout = 10 * time.Second
	// scanBackoff is how long a region may be unavailable to a scan, in milliseconds.
	scanBackoff = 30_000
)

// Copy is every row of a workload at a timestamp, as read from a cluster.
type Copy struct {
	TS         cluster.TS
	Rows       map[string]Row
	Unreadable []string // keys whose values are no rows
}

// Lock is a lock that a transaction left behind.
type Lock struct {
	Key, Primary string
	StartTS      cluster.TS
}

// CopyAt reads all rows at ts, region by region. Locks in the way are resolved as any reader does. It ends with ctx.
func (c *Cluster) CopyAt(ctx context.Context, ts cluster.TS) (*Copy, error) {
	out := &Copy{TS: ts, Rows: map[string]Row{}}
	for _, prefix := range []string{accountPrefix, transferPrefix} {
		end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
		err := c.eachRegion(ctx, []byte(prefix), []byte(end), func(bo *tikv.Backoffer, loc *tikv.KeyLocation, from, to []byte) ([]byte, error) {
			return c.scanOnce(bo, loc, ts, from, to, out)
		})
		if err != nil {
			return nil, failure.Annotate(err, "copy rows", "timestamp "+ts.String())
		}
	}
	return out, nil
}

// scanOnce reads one batch and returns where to continue.
func (c *Cluster) scanOnce(
	bo *tikv.Backoffer, loc *tikv.KeyLocation, ts cluster.TS, from, to []byte, out *Copy,
) ([]byte, error) {
	resp, err := c.send(bo, loc, tikvrpc.CmdScan, &kvrpcpb.ScanRequest{
		StartKey: from, EndKey: to, Limit: scanBatch, Version: uint64(ts),
	})
	if err != nil {
		return nil, err
	}
	scan, ok := resp.(*kvrpcpb.ScanResponse)
	if !ok {
		return nil, unexpected(resp)
	}
	next := to
	if len(scan.Pairs) == scanBatch {
		next = append(bytes.Clone(scan.Pairs[scanBatch-1].Key), 0)
	}
	var locks []*txnlock.Lock
	for _, pair := range scan.Pairs {
		if keyErr := pair.Error; keyErr != nil {
			if keyErr.Locked == nil {
				return nil, fmt.Errorf("scan of %q: %s", pair.Key, keyErr)
			}
			if len(locks) == 0 {
				next = keyErr.Locked.Key // read it again when the locks are gone
			}
			locks = append(locks, txnlock.NewLock(keyErr.Locked))
		}
		if len(locks) > 0 {
			continue
		}
		row, err := decodeRow(pair.Value)
		if err != nil {
			out.Unreadable = append(out.Unreadable, string(pair.Key))
			continue
		}
		out.Rows[string(pair.Key)] = row
	}
	return next, c.resolve(bo, ts, locks)
}

// resolve resolves locks and waits for those that are alive.
func (c *Cluster) resolve(bo *tikv.Backoffer, ts cluster.TS, locks []*txnlock.Lock) error {
	if len(locks) == 0 {
		return nil
	}
	wait, err := c.store.GetLockResolver().ResolveLocks(bo, uint64(ts), locks)
	if err != nil || wait <= 0 {
		return err
	}
	return bo.BackoffWithMaxSleepTxnLockFast(int(wait), errors.New("locked"))
}

// LocksLeft lists the locks in all regions, of whatever age.
func (c *Cluster) LocksLeft(ctx context.Context) ([]Lock, error) {
	var locks []Lock
	err := c.eachRegion(ctx, nil, nil, func(bo *tikv.Backoffer, loc *tikv.KeyLocation, from, to []byte) ([]byte, error) {
		resp, err := c.send(bo, loc, tikvrpc.CmdScanLock, &kvrpcpb.ScanLockRequest{
			MaxVersion: math.MaxUint64, StartKey: from, EndKey: to, Limit: scanBatch,
		})
		if err != nil {
			return nil, err
		}
		scan, ok := resp.(*kvrpcpb.ScanLockResponse)
		if !ok {
			return nil, unexpected(resp)
		}
		found := scan.Locks
		for _, l := range found {
			locks = append(locks, Lock{Key: string(l.Key), Primary: string(l.PrimaryLock), StartTS: cluster.TS(l.LockVersion)})
		}
		if len(found) == scanBatch {
			return append(bytes.Clone(found[scanBatch-1].Key), 0), nil
		}
		return to, nil
	})
	return locks, failure.Annotate(err, "scan locks", "")
}

// errRegion is a region error that was waited for: the region has to be located again.
var errRegion = errors.New("region moved")

// eachRegion calls visit for [start, end) piece by piece: visit gets the part of a region that is left and returns
// where to continue, the part's end when it is done.
func (c *Cluster) eachRegion(
	ctx context.Context, start, end []byte,
	visit func(bo *tikv.Backoffer, loc *tikv.KeyLocation, from, to []byte) (next []byte, err error),
) error {
	for {
		bo := tikv.NewBackofferWithVars(ctx, scanBackoff, nil)
		loc, to, err := c.locate(bo, start, end)
		for err == nil {
			var next []byte
			if next, err = visit(bo, loc, start, to); err == nil {
				start = next
				break
			}
			if !errors.Is(err, errRegion) {
				break
			}
			loc, to, err = c.locate(bo, start, end)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case len(start) == 0 || (len(end) > 0 && bytes.Compare(start, end) >= 0):
			return nil
		}
	}
}

func (c *Cluster) locate(bo *tikv.Backoffer, start, end []byte) (*tikv.KeyLocation, []byte, error) {
	loc, err := c.store.GetRegionCache().LocateKey(bo, start)
	if err != nil {
		return nil, nil, err
	}
	to := end
	if len(loc.EndKey) > 0 && (len(end) == 0 || bytes.Compare(loc.EndKey, end) < 0) {
		to = loc.EndKey
	}
	return loc, to, nil
}

// send sends one request to a region's leader. A region error is waited for and becomes errRegion.
func (c *Cluster) send(bo *tikv.Backoffer, loc *tikv.KeyLocation, cmd tikvrpc.CmdType, req any) (any, error) {
	resp, err := c.store.SendReq(bo, tikvrpc.NewRequest(cmd, req), loc.Region, scanTimeout)
	if err != nil {
		return nil, err
	}
	var regionErr *errorpb.Error
	if regionErr, err = resp.GetRegionError(); err != nil {
		return nil, err
	}
	if regionErr == nil {
		return resp.Resp, nil
	}
	if err := bo.Backoff(retry.BoRegionMiss, errors.New(regionErr.String())); err != nil {
		return nil, err
	}
	return nil, errRegion
}

// unexpected is an answer to another question.
func unexpected(resp any) error { return fmt.Errorf("unexpected answer %T", resp) }
