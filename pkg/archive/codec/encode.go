package codec

import (
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/tisnap/tisnap/pkg/failure"
)

// MaxBlock is the largest block in bytes: that of EBS.
const MaxBlock = 512 << 10

// ID names in a repository how a block is compressed. It never changes its meaning.
type ID uint8

// The codecs of format version 1.
const (
	Stored ID = 0 // the block as it is
	InS2   ID = 1 // a block of S2, which is a superset of Snappy's
	InZstd ID = 2 // one frame of Zstandard (RFC 8878), without checksum
)

// Encoder compresses blocks at one level. It is for one goroutine.
type Encoder struct {
	level Level
	zstd  *zstd.Encoder // nil if the level needs none
	buf   []byte        // the result of zstd
	probe []byte        // the result of s2
}

// NewEncoder returns an encoder, whose buffers it keeps from block to block.
func NewEncoder(level Level) (*Encoder, error) {
	e := &Encoder{level: level}
	if level == None || level == "" {
		return e, nil
	}
	if _, err := ParseLevel(string(level)); err != nil {
		return nil, err
	}
	if level == S2 {
		return e, nil
	}
	var err error
	e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(level.zstd()), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(MaxBlock), zstd.WithEncoderCRC(false), zstd.WithAllLitEntropyCompression(true))
	return e, failure.Wrap(err, failure.Unknown, "start compression", string(level))
}

// Encode returns the block as it is stored: compressed if that saves at least 3 %, else the block itself. The result is
// valid until the next call.
func (e *Encoder) Encode(block []byte) (ID, []byte) {
	switch e.level {
	case None, "":
		return Stored, block
	case S2:
		return smaller(InS2, e.inS2(block), block)
	case Auto:
		if flat(block) && !saves(e.inS2(block), block) {
			return Stored, block
		}
	default: // levels of zstd
	}
	e.buf = e.zstd.EncodeAll(block, e.buf[:0])
	return smaller(InZstd, e.buf, block)
}

func (e *Encoder) inS2(block []byte) []byte {
	if most := s2.MaxEncodedLen(len(block)); cap(e.probe) < most {
		e.probe = make([]byte, most)
	}
	return s2.Encode(e.probe[:cap(e.probe)], block)
}

func smaller(id ID, packed, block []byte) (ID, []byte) {
	if saves(packed, block) {
		return id, packed
	}
	return Stored, block
}

// saves reports whether a compressed block is worth its decompression.
func saves(packed, block []byte) bool { return 100*len(packed) <= 97*len(block) }
