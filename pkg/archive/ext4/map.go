package ext4

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/bits"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

// BlockSize is the size of the blocks that a Map is about, which are those of EBS and of an archive.
const BlockSize = codec.MaxBlock

// Map has the free blocks of a volume. It has a bit for each block: 4 MiB for 16 TiB. It does not change.
type Map struct {
	used   []uint64 // a bit for each block that the file system covers
	blocks int64    // that are wholly in the file system
	reason string
}

// Free reports whether an aligned block of BlockSize bytes, or the shorter last one of the volume, is wholly free. A
// block that is not of the file system is not.
func (m *Map) Free(block int64) bool {
	return block >= 0 && block < m.blocks && m.used[block/64]>>(block%64)&1 == 0
}

// Count is the number of free blocks.
func (m *Map) Count() int64 {
	n := m.blocks
	for _, word := range m.used {
		n -= int64(bits.OnesCount64(word))
	}
	return n
}

// Reason is why no block may be left out, as a clause; it is "" if the file system could be read.
func (m *Map) Reason() string { return m.reason }

// Read reads the file system of a volume of a size, through reads of at most 4 KiB each: each bitmap and descriptor
// once, and the part of the journal that a mount would replay, most of them in the order of the volume. Its memory is
// bounded, whatever the volume holds: below 64 MiB for 16 TiB with a journal of the usual size, always below 256 MiB.
//
// An error is one of the reader, or the end of ctx. A volume that cannot be understood has a Map with a Reason.
func Read(ctx context.Context, r io.ReaderAt, size int64) (*Map, error) {
	m, err := read(&disk{ended: func() error { return context.Cause(ctx) }, r: r, size: size})
	if o := odd(""); errors.As(err, &o) {
		return &Map{reason: string(o)}, nil
	}
	return m, failure.Annotate(err, "find free blocks", "")
}

func read(d *disk) (*Map, error) {
	sb, err := d.superblock()
	if err != nil {
		return nil, err
	}
	if err := d.recover(sb); err != nil {
		return nil, err
	}
	groups, err := d.groups(sb)
	if err != nil {
		return nil, err
	}
	m := newMap(sb, d.size)
	for g := range uint64(len(groups)) {
		m.use(sb, sb.start(g), sb.start(g)+sb.base(g))
		for _, part := range groups[g].own(sb) {
			m.use(sb, part.from, part.to)
		}
	}
	return m, d.bitmaps(sb, groups, m)
}

// newMap returns a map of whose blocks those are in use that the file system does not cover wholly.
func newMap(sb superblock, size int64) *Map {
	end := int64(sb.blocks) * sb.blockSize
	m := &Map{blocks: end / BlockSize}
	if end == size {
		m.blocks = (end + BlockSize - 1) / BlockSize
	}
	m.used = make([]uint64, (m.blocks+63)/64)
	m.use(sb, 0, sb.firstData)
	return m
}

// use marks blocks of the file system, from one up to another, as being in use.
func (m *Map) use(sb superblock, from, to uint64) {
	if from >= to {
		return
	}
	per := uint64(BlockSize / sb.blockSize)
	for b := from / per; b <= (to-1)/per && b < uint64(m.blocks); b++ {
		m.used[b/64] |= 1 << (b % 64)
	}
}

// useBitmap marks the blocks, n from one on, whose bits are set, and returns how many are not.
func (m *Map) useBitmap(sb superblock, from, n uint64, bitmap []byte) uint64 {
	free, per := n, uint64(BlockSize/sb.blockSize)
	for i := uint64(0); i < n; i += 64 {
		word := binary.LittleEndian.Uint64(bitmap[i/8:])
		if n-i < 64 {
			word &= 1<<(n-i) - 1
		}
		free -= uint64(bits.OnesCount64(word))
		if word != 0 && (from+i)/per == (from+i+63)/per {
			m.use(sb, from+i, from+i+1) // which is as good as each of them
			continue
		}
		for ; word != 0; word &= word - 1 {
			at := from + i + uint64(bits.TrailingZeros64(word))
			m.use(sb, at, at+1)
		}
	}
	return free
}
