package tikv

import (
	"context"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"

	"github.com/tisnap/tisnap/pkg/failure"
)

// PrepareFlashback blocks the region. TiKV checks nothing here: that the timestamps make sense is up to the caller.
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

// Flashback returns the keys to f.Version. A version of 0 or one not below StartTS, and a CommitTS not above
// StartTS, are Usage errors and not sent: TiKV would delete all rows, change nothing, or refuse.
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

// flashed turns the errors inside a response into ours: a *RegionError is to be retried, a text is not.
func flashed(op string, f Flashback, region *errorpb.Error, text string) error {
	switch {
	case region != nil:
		return regionError(f.Region.ID, region)
	case text != "":
		return failure.New(failure.Usage, op, "region "+f.Region.ID.String(), "%s", failure.Line(text))
	}
	return nil
}
