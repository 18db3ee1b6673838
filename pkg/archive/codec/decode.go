package codec

import (
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Decoder decompresses blocks. It is for one goroutine.
type Decoder struct{ zstd *zstd.Decoder }

// NewDecoder returns a decoder, which keeps its tables from block to block.
func NewDecoder() (*Decoder, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(MaxBlock), zstd.WithDecodeAllCapLimit(true))
	return &Decoder{zstd: d}, failure.Wrap(err, failure.Unknown, "start decompression", "")
}

// Decode fills block with what Encode was given. It fails if packed does not decode to exactly len(block) bytes, and
// never writes beyond them.
func (d *Decoder) Decode(block []byte, id ID, packed []byte) error {
	n, err := 0, error(nil)
	switch id {
	case Stored:
		if n = len(packed); n == len(block) {
			copy(block, packed)
		}
	case InS2:
		if n, err = s2.DecodedLen(packed); err == nil && n == len(block) {
			_, err = s2.Decode(block, packed)
		}
	case InZstd:
		var out []byte
		out, err = d.zstd.DecodeAll(packed, block[:0:len(block)])
		n = len(out)
	default:
		return failure.New(failure.Corrupt, "decompress block", "", "codec %d is unknown", id)
	}
	if err == nil && n != len(block) {
		err = failure.New(failure.Corrupt, "", "", "it has %d bytes, not %d", n, len(block))
	}
	return failure.Wrap(err, failure.Corrupt, "decompress block", "")
}
