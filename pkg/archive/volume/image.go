package volume

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Image is a volume in a file or a block device, as a source and as a target.
type Image struct {
	Bytes int64 // its size
	From  io.ReaderAt
	To    io.WriterAt
	// Dirty means that To may have content: then all blocks are written, also those that are zeros.
	Dirty bool
	// OneByOne is for a To that is a file: its system writes one block at a time, and what waits for that there spins.
	OneByOne bool

	mu sync.Mutex
}

// Size implements Source.
func (m *Image) Size() int64 { return m.Bytes }

// Blocks implements Source: an image does not know which of its blocks were never written.
func (m *Image) Blocks(_ context.Context, from, to int64) iter.Seq2[Block, error] {
	return func(yield func(Block, error) bool) {
		for index := from; index < to; index++ {
			if !yield(imageBlock{m, index}, nil) {
				return
			}
		}
	}
}

// Write implements Target.
func (m *Image) Write(_ context.Context, index int64, block []byte, _ format.Digest) error {
	if m.OneByOne {
		m.mu.Lock()
		defer m.mu.Unlock()
	}
	_, err := m.To.WriteAt(block, index*BlockSize)
	return failure.Wrap(err, failure.Unknown, "write block", "")
}

// Clear implements Clearer.
func (m *Image) Clear(_ context.Context, index, size int64) error {
	if !m.Dirty {
		return nil
	}
	_, err := m.To.WriteAt(zeros[:size], index*BlockSize)
	return failure.Wrap(err, failure.Unknown, "write block", "")
}

// zeroDigest is the SHA-256 of a block of zeros.
var zeroDigest = format.Digest(sha256.Sum256(zeros))

type imageBlock struct {
	image *Image
	index int64
}

func (b imageBlock) Index() int64 { return b.index }

func (b imageBlock) Absent() bool { return false }

func (b imageBlock) Read(ctx context.Context, into []byte) (format.Digest, error) {
	if err := b.ReadRow(ctx, into); err != nil {
		return format.Digest{}, err
	}
	return digestOf(into), nil
}

// Follows implements rowBlock.
func (b imageBlock) Follows(before Block) bool {
	return before == Block(imageBlock{b.image, b.index - 1})
}

// ReadRow implements rowBlock.
func (b imageBlock) ReadRow(ctx context.Context, into []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if n, err := b.image.From.ReadAt(into, b.index*BlockSize); n < len(into) {
		return failure.Wrap(err, failure.Unknown, "read", fmt.Sprintf("block %d", b.index+int64(n)/BlockSize))
	}
	return nil
}

// digestOf is the SHA-256 of a block.
func digestOf(block []byte) format.Digest {
	if len(block) == BlockSize && IsZero(block) {
		return zeroDigest
	}
	return sha256.Sum256(block)
}
