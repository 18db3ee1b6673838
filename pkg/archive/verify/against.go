package verify

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// errDiffers is of blocks that are not what was archived.
var errDiffers = failure.New(failure.Corrupt, "compare archive", "", "it has other content than the archive")

// againstReads is how many blocks of a snapshot are read at the same time: 16 MiB.
const againstReads = 32

// openAgainst opens what an archived volume was made of; nil if it is gone, or nothing is compared.
func (v *verifier) openAgainst(ctx context.Context, a *format.Archive, of format.Volume) (volume.Source, error) {
	if v.options.Against == nil {
		return nil, nil
	}
	source, err := v.options.Against(ctx, a, of)
	if failure.Is(err, failure.NotFound) {
		if !slices.Contains(v.result.Gone, of.Source) {
			v.result.Gone = append(v.result.Gone, of.Source)
		}
		return nil, nil
	}
	if err == nil && source.Size() != of.Size {
		return nil, failure.New(failure.Corrupt, "compare archive", of.Source,
			"it has %d bytes, and the archived volume %d", source.Size(), of.Size)
	}
	if err == nil {
		v.result.Opened++
	}
	return source, err
}

// comparison compares a part of a map with what was archived.
type comparison struct {
	*verifier
	part volume.Part

	mu      sync.Mutex
	differ  []int64 // blocks
	buffers sync.Pool
}

// against returns the blocks of a part that are not those of the source, in ascending order. Of those that the source
// lists a sample is read; that it does not list a saved one is seen without reading.
func (v *verifier) against(ctx context.Context, source volume.Source, part volume.Part) ([]int64, error) {
	c := &comparison{verifier: v, part: part}
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(againstReads)
	next := part.First
	var listed error
	for b, err := range source.Blocks(reading, part.First, part.First+part.Blocks) {
		if listed = err; err != nil {
			break
		}
		c.unlisted(next, b.Index())
		next = b.Index() + 1
		if part.Places[b.Index()-part.First].State == format.Free || rand.Float64() >= v.options.Sample {
			continue
		}
		v.result.Compared++
		size := min(volume.BlockSize, source.Size()-b.Index()*volume.BlockSize)
		group.Go(func() error { return c.read(reading, b, size) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c.unlisted(next, part.First+part.Blocks)
	slices.Sort(c.differ)
	return c.differ, listed
}

// unlisted are blocks that the source does not have: it has nothing of what is saved there.
func (c *comparison) unlisted(from, to int64) {
	for index := from; index < to; index++ {
		if c.part.Places[index-c.part.First].State == format.Saved {
			c.note(index)
		}
	}
}

func (c *comparison) note(index int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.differ = append(c.differ, index)
}

// read compares a block's digest.
func (c *comparison) read(ctx context.Context, b volume.Block, size int64) error {
	buffer, ok := c.buffers.Get().(*[]byte)
	if !ok {
		made := make([]byte, volume.BlockSize)
		buffer = &made
	}
	defer c.buffers.Put(buffer)
	digest, err := b.Read(ctx, (*buffer)[:size])
	if err != nil {
		return err
	}
	place := c.part.Places[b.Index()-c.part.First]
	want := place.Block.Digest
	if place.State != format.Saved {
		want = sha256.Sum256(make([]byte, size))
	}
	if digest != want {
		c.note(b.Index())
	}
	return nil
}
