package tikv

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// digestPage is the number of rows per call: rows are at most 6 MiB, and mostly below 1 KiB.
const digestPage = 1024

// Digest summarizes a region's rows at a timestamp: equal digests mean equal rows.
type Digest struct {
	Rows int64
	Sum  [sha256.Size]byte
}

// Digest reads all rows of the region as of ts from its leader. A locked row is a Conflict.
func (c *Client) Digest(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (Digest, error) {
	const op = "read rows"
	conn, err := c.connection(address)
	if err != nil {
		return Digest{}, err
	}
	keys, err := DecodeRange(r.Keys)
	if err != nil {
		return Digest{}, err
	}
	client, sum, d := tikvpb.NewTikvClient(conn), sha256.New(), Digest{}
	for {
		resp, err := client.KvScan(ctx, &kvrpcpb.ScanRequest{
			Context: contextPB(r), StartKey: keys.Start, EndKey: keys.End, Limit: digestPage, Version: uint64(ts),
		})
		switch {
		case err != nil:
			return Digest{}, translate(ctx, err, op, address, "")
		case resp.RegionError != nil:
			return Digest{}, regionError(r.ID, resp.RegionError)
		case resp.Error != nil:
			return Digest{}, failure.New(failure.Conflict, op, "region "+r.ID.String(), "%s",
				failure.Line(resp.Error.String()))
		}
		for _, pair := range resp.Pairs {
			if pair.Error != nil {
				return Digest{}, failure.New(failure.Conflict, op, "region "+r.ID.String(), "%s",
					failure.Line(pair.Error.String()))
			}
			add(sum, pair.Key)
			add(sum, pair.Value)
		}
		d.Rows += int64(len(resp.Pairs))
		if len(resp.Pairs) < digestPage {
			copy(d.Sum[:], sum.Sum(nil))
			return d, nil
		}
		last := resp.Pairs[len(resp.Pairs)-1].Key
		keys.Start = append(append([]byte(nil), last...), 0)
	}
}

// add prefixes the bytes with their length, so that keys and values cannot run into each other.
func add(sum hash.Hash, b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	sum.Write(n[:])
	sum.Write(b)
}
