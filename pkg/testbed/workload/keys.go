package workload

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/txnlock"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Write changes keys in one transaction; a nil value deletes its key.
func (c *Cluster) Write(ctx context.Context, change map[string][]byte) error {
	txn, _, err := c.begin(ctx, false)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(change)) {
		if value := change[key]; value != nil {
			err = txn.Set([]byte(key), value)
		} else {
			err = txn.Delete([]byte(key))
		}
		if err != nil {
			return failure.Wrap(err, failure.Unknown, "write", fmt.Sprintf("%q", key))
		}
	}
	return failure.Wrap(txn.Commit(ctx), failure.Unknown, "commit", fmt.Sprint(len(change), " keys"))
}

// Scan visits the keys with a prefix as they were at ts, in order, region by region. Locks in the way are resolved as any
// reader does.
func (c *Cluster) Scan(ctx context.Context, ts cluster.TS, prefix []byte, visit func(key, value []byte) error) error {
	err := c.eachRegion(ctx, prefix, after(prefix), func(bo *tikv.Backoffer, loc *tikv.KeyLocation, from, to []byte) ([]byte, error) {
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
		for _, pair := range scan.Pairs {
			if keyErr := pair.Error; keyErr != nil {
				if keyErr.Locked == nil {
					return nil, fmt.Errorf("scan of %q: %s", pair.Key, keyErr)
				}
				return keyErr.Locked.Key, c.resolve(bo, ts, []*txnlock.Lock{txnlock.NewLock(keyErr.Locked)})
			}
			if err := visit(pair.Key, pair.Value); err != nil {
				return nil, err
			}
		}
		if len(scan.Pairs) == scanBatch {
			return append(bytes.Clone(scan.Pairs[scanBatch-1].Key), 0), nil
		}
		return to, nil
	})
	return failure.Annotate(err, "scan", fmt.Sprintf("%q", prefix))
}

// after is the first key that does not begin with a prefix.
func after(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < math.MaxUint8 {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
