package ebsdirect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ebs"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// What the API documents: the blocks in a page, and that the tokens of a page expire after a week.
const (
	minPage  = 100
	maxPage  = 10_000
	renewAge = 6 * 24 * time.Hour
)

// page is one page of a list of blocks.
type page struct {
	blocks  []Block
	next    *string
	sizeGiB int64
}

// SizeGiB implements Source.
func (c *Client) SizeGiB(ctx context.Context, id cluster.SnapshotID) (int64, error) {
	p, err := c.listBlocks(ctx, id, 0, minPage, nil)
	return p.sizeGiB, err
}

// Blocks implements Source.
func (c *Client) Blocks(ctx context.Context, id cluster.SnapshotID, from int64) iter.Seq2[Block, error] {
	return c.pages(from, func(from int64, next *string) (page, error) {
		return c.listBlocks(ctx, id, from, c.page, next)
	})
}

// Changed implements Source.
func (c *Client) Changed(ctx context.Context, base, id cluster.SnapshotID, from int64) iter.Seq2[Block, error] {
	return c.pages(from, func(from int64, next *string) (page, error) {
		return c.listChanged(ctx, base, id, from, next)
	})
}

// pages yields the blocks of all pages. It lists again from a block on whose token has become old meanwhile.
func (c *Client) pages(from int64, list func(from int64, next *string) (page, error)) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		var next *string
	pages:
		for {
			p, err := list(from, next)
			if next != nil && errors.Is(err, errPageToken) { // it expires before those of blocks do
				next = nil
				continue
			}
			if err != nil {
				yield(Block{}, err)
				return
			}
			for _, b := range p.blocks {
				if b.Index < from { // a block that was passed over would be lost
					yield(Block{}, failure.New(failure.Corrupt, opList.verb, b.target(), "listed too late"))
					return
				}
				if c.old(b) {
					from, next = b.Index, nil
					continue pages
				}
				if !yield(b, nil) {
					return
				}
				from = b.Index + 1
			}
			if next = p.next; next == nil {
				return
			}
		}
	}
}

func (c *Client) old(b Block) bool { return c.clock.Now().Sub(b.listed) >= renewAge }

func (c *Client) listBlocks(
	ctx context.Context, id cluster.SnapshotID, from int64, size int32, next *string,
) (page, error) {
	in := &sdk.ListSnapshotBlocksInput{
		SnapshotId: aws.String(string(id)), StartingBlockIndex: index32(from), MaxResults: &size, NextToken: next,
	}
	var p page
	err := c.call(ctx, opList, id, func(ctx context.Context) error {
		now := c.clock.Now()
		out, err := c.api.ListSnapshotBlocks(ctx, in)
		if err != nil {
			return err
		}
		p = page{next: out.NextToken, sizeGiB: aws.ToInt64(out.VolumeSize)}
		for _, b := range out.Blocks {
			p.blocks = append(p.blocks, Block{id, int64(aws.ToInt32(b.BlockIndex)), aws.ToString(b.BlockToken), now})
		}
		return nil
	})
	return p, err
}

func (c *Client) listChanged(
	ctx context.Context, base, id cluster.SnapshotID, from int64, next *string,
) (page, error) {
	in := &sdk.ListChangedBlocksInput{
		FirstSnapshotId: aws.String(string(base)), SecondSnapshotId: aws.String(string(id)),
		StartingBlockIndex: index32(from), MaxResults: &c.page, NextToken: next,
	}
	var p page
	err := c.call(ctx, opChanged, id, func(ctx context.Context) error {
		now := c.clock.Now()
		out, err := c.api.ListChangedBlocks(ctx, in)
		if err != nil {
			return err
		}
		p = page{next: out.NextToken, sizeGiB: aws.ToInt64(out.VolumeSize)}
		for _, b := range out.ChangedBlocks {
			index, token := int64(aws.ToInt32(b.BlockIndex)), aws.ToString(b.SecondBlockToken)
			p.blocks = append(p.blocks, Block{id, index, token, now})
		}
		return nil
	})
	return p, err
}

// Read implements Source.
func (c *Client) Read(ctx context.Context, b Block, into []byte) (Sum, error) {
	if len(into) != BlockSize {
		return Sum{}, failure.New(failure.Usage, opRead.verb, b.target(), "a buffer of %d bytes", len(into))
	}
	if b.Absent() {
		clear(into)
		return SumOf(into), nil
	}
	if c.old(b) {
		var err error
		if b, err = c.renewed(ctx, b); err != nil {
			return Sum{}, err
		}
	}
	sum, err := c.read(ctx, b, into)
	if errors.Is(err, errToken) { // by AWS's clock it is older
		if b, err = c.renewed(ctx, b); err == nil {
			sum, err = c.read(ctx, b, into)
		}
	}
	return sum, err
}

// renewed is the block with a new token.
func (c *Client) renewed(ctx context.Context, b Block) (Block, error) {
	p, err := c.listBlocks(ctx, b.Snapshot, b.Index, minPage, nil)
	if err != nil {
		return b, err
	}
	if len(p.blocks) == 0 || p.blocks[0].Index != b.Index {
		return b, failure.New(failure.Unknown, opRead.verb, b.target(), "the snapshot no longer lists the block")
	}
	return p.blocks[0], nil
}

func (c *Client) read(ctx context.Context, b Block, into []byte) (Sum, error) {
	in := &sdk.GetSnapshotBlockInput{
		SnapshotId: aws.String(string(b.Snapshot)), BlockIndex: index32(b.Index), BlockToken: &b.token,
	}
	var sum Sum
	err := c.call(ctx, opRead.on(b.Index), b.Snapshot, func(ctx context.Context) error {
		out, err := c.api.GetSnapshotBlock(ctx, in)
		if err != nil {
			return err
		}
		defer func() { _ = out.BlockData.Close() }()
		if n := aws.ToInt32(out.DataLength); n != BlockSize {
			return fmt.Errorf("%w: %d bytes instead of %d", errDamaged, n, BlockSize)
		}
		if _, err := io.ReadFull(out.BlockData, into); err != nil {
			return err
		}
		if sum = SumOf(into); sum.encoded() != aws.ToString(out.Checksum) {
			return fmt.Errorf("%w: sha256 %s instead of %s", errDamaged, sum.encoded(), aws.ToString(out.Checksum))
		}
		return nil
	})
	if err != nil {
		return Sum{}, err
	}
	return sum, nil
}

func (b Block) target() string { return fmt.Sprintf("block %d of %s", b.Index, b.Snapshot) }

// index32 is a block's index for the API: the largest volume has fewer than 2^27 blocks.
func index32(n int64) *int32 { return aws.Int32(saturate.To[int32](n)) }
