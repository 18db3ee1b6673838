package tikv

import (
	"context"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/tisnap/tisnap/pkg/failure"
)

// PrepareFlashback blocks the region. TiKV checks nothing here: the caller must pass sensible timestamps.
func (c *Client) PrepareFlashback(ctx context.Context, address string, f Flashback) error {
	const op = "prepare flashback"
	resp, err := c.prepareInBatch(ctx, op, address, &kvrpcpb.PrepareFlashbackToVersionRequest{
		Context: contextPB(f.Region), StartKey: f.Keys.Start, EndKey: f.Keys.End,
		StartTs: uint64(f.StartTS), Version: uint64(f.Version),
	})
	if err != nil {
		return err
	}
	return flashed(op, f, resp.RegionError, resp.Error)
}

// Flashback reverts the keys to f.Version. A version that is 0 or not below StartTS, or a CommitTS not above
// StartTS, is Usage and not sent: TiKV would delete all rows, change nothing, or refuse.
func (c *Client) Flashback(ctx context.Context, address string, f Flashback) error {
	const op = "flash back"
	if f.Version == 0 || f.Version >= f.StartTS || f.StartTS >= f.CommitTS {
		return failure.New(failure.Usage, op, "region "+f.Region.ID.String(),
			"want 0 < version %s < start ts %s < commit ts %s", f.Version, f.StartTS, f.CommitTS)
	}
	resp, err := c.flashBackInBatch(ctx, op, address, &kvrpcpb.FlashbackToVersionRequest{
		Context: contextPB(f.Region), StartKey: f.Keys.Start, EndKey: f.Keys.End,
		Version: uint64(f.Version), StartTs: uint64(f.StartTS), CommitTs: uint64(f.CommitTS),
	})
	if err != nil {
		return err
	}
	return flashed(op, f, resp.RegionError, resp.Error)
}

// flashed converts the errors in a response to ours: only a *RegionError may be retried.
func flashed(op string, f Flashback, region *errorpb.Error, text string) error {
	switch {
	case region != nil:
		return regionError(f.Region.ID, region)
	case text != "":
		return failure.New(failure.Usage, op, "region "+f.Region.ID.String(), "%s", failure.Line(text))
	}
	return nil
}
