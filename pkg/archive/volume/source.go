package volume

import (
	"context"
	"iter"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
)

// BlockSize is the size of every block but a volume's last one, which has what remains.
const BlockSize = codec.MaxBlock

// Block is a block of a source that may have data.
type Block interface {
	Index() int64
	// Absent reports whether the block was discarded since the base of a differential source: it reads as zeros.
	Absent() bool
	// Read fills into, which has the block's size, and returns the SHA-256 of what it read. It is called once.
	Read(ctx context.Context, into []byte) (format.Digest, error)
}

// rowBlock is a Block that can be read at once with those behind it, which takes its system fewer calls and threads.
type rowBlock interface {
	Block
	// Follows reports whether it comes right behind another block, of the same source.
	Follows(before Block) bool
	// ReadRow fills into from the block on. Nothing is hashed: that is done block by block, just before each is
	// compressed, while the processor's cache has it.
	ReadRow(ctx context.Context, into []byte) error
}

// Source is a volume, or its difference from a base.
type Source interface {
	// Size is the volume's size in bytes; of a Growing one, how much was read.
	Size() int64
	// Blocks lists the blocks of [from, to) in ascending order. A block that is not listed is as in the base of a
	// differential source, and reads as zeros in any other. An error is the last element.
	Blocks(ctx context.Context, from, to int64) iter.Seq2[Block, error]
}

// Growing is a Source whose size is known only at its end. Its blocks are listed once, from the first one to the last.
type Growing interface {
	Source
	// More reports whether there is a block behind those that were listed, and waits until that is known.
	More(ctx context.Context) (bool, error)
}
