package snapshot

import (
	"context"
	"io"
	"iter"
	"math"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
)

// Free finds the blocks of a snapshot that its ext4 file system does not use. It reads the few blocks that list them,
// most of them once, and has at most 8 of them in memory. Who leaves out free blocks of a source with a base has to
// keep the rule in the documentation of package ext4: what was free in the base, and is not now, has to be read
// whether or not it changed.
func Free(ctx context.Context, e ebsdirect.Source, id cluster.SnapshotID) (*ext4.Map, error) {
	gib, err := e.SizeGiB(ctx, id)
	if err != nil {
		return nil, err
	}
	return ext4.Read(ctx, &reader{
		read:   func(b ebsdirect.Block, into []byte) (ebsdirect.Sum, error) { return e.Read(ctx, b, into) },
		blocks: func(from int64) iter.Seq2[ebsdirect.Block, error] { return e.Blocks(ctx, id, from) },
	}, gib<<30)
}

// cached is how many blocks a reader keeps.
const cached = 8

// ahead is how many blocks of a list are kept, from the one on that was asked for.
const ahead = 4096

// reader reads any bytes of a snapshot. It is for one goroutine.
type reader struct {
	read   func(b ebsdirect.Block, into []byte) (ebsdirect.Sum, error)
	blocks func(from int64) iter.Seq2[ebsdirect.Block, error]
	listed map[int64]ebsdirect.Block // the blocks with data in [from, to)
	from   int64
	to     int64
	recent []content // the last one read is first
}

// content is a block of the snapshot.
type content struct {
	index int64
	data  []byte // nil if it is zeros
}

// ReadAt implements io.ReaderAt.
func (r *reader) ReadAt(into []byte, offset int64) (int, error) {
	for n := 0; n < len(into); {
		at := offset + int64(n)
		data, err := r.block(at / volume.BlockSize)
		if err != nil {
			return n, err
		}
		part := into[n:min(len(into), n+int(volume.BlockSize-at%volume.BlockSize))]
		clear(part)
		if data != nil {
			copy(part, data[at%volume.BlockSize:])
		}
		n += len(part)
	}
	return len(into), nil
}

var _ io.ReaderAt = (*reader)(nil)

// block returns the content of one, nil if it has only zeros.
func (r *reader) block(index int64) ([]byte, error) {
	for i, c := range r.recent {
		if c.index == index {
			copy(r.recent[1:i+1], r.recent[:i])
			r.recent[0] = c
			return c.data, nil
		}
	}
	if index < r.from || index >= r.to {
		if err := r.list(index); err != nil {
			return nil, err
		}
	}
	c := content{index: index}
	if b, ok := r.listed[index]; ok {
		c.data = make([]byte, volume.BlockSize)
		if _, err := r.read(b, c.data); err != nil {
			return nil, err
		}
	}
	r.recent = append([]content{c}, r.recent[:min(len(r.recent), cached-1)]...)
	return c.data, nil
}

// list lists the blocks from one on.
func (r *reader) list(from int64) error {
	r.listed, r.from, r.to = map[int64]ebsdirect.Block{}, from, from
	for b, err := range r.blocks(from) {
		if err != nil {
			return err
		}
		r.listed[b.Index], r.to = b, b.Index+1
		if len(r.listed) == ahead {
			return nil
		}
	}
	r.to = math.MaxInt64
	return nil
}
