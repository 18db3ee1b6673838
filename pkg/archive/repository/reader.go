package repository

import (
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// reader opens the blocks of a range of a pack, and of others after it: its memory is used again.
type reader struct {
	decoder *codec.Decoder
	sealed  []byte // the range
	block   []byte
}

// reader returns one for a range of so many bytes, which the caller puts back.
func (r *Repository) reader(size int) (*reader, error) {
	out, ok := r.readers.Get().(*reader)
	if !ok {
		decoder, err := codec.NewDecoder()
		if err != nil {
			return nil, err
		}
		out = &reader{decoder: decoder, block: make([]byte, codec.MaxBlock)}
	}
	if cap(out.sealed) < size {
		// Not as long as this range: with ranges of many lengths one buffer after the other would be garbage, and a
		// restore of what compresses would take half as much memory again as one of what does not.
		out.sealed = make([]byte, max(size, MaxRange))
	}
	out.sealed = out.sealed[:size]
	return out, nil
}

// open returns a block of the range, which begins at from, as it was compressed and as it is. Both are valid until the
// next call, and it is opened in its place: it cannot be opened twice.
func (r *reader) open(pack *format.Pack, b format.Block, from int64) (packed, block []byte, err error) {
	sealed := r.sealed[int64(b.Offset)-from:][:b.Length]
	packed, err = pack.Open(sealed[:0], b, sealed)
	if err != nil {
		return nil, nil, err
	}
	if b.Codec == codec.Stored && len(packed) == int(b.Raw) {
		return packed, packed, nil
	}
	block = r.block[:b.Raw]
	if err := r.decoder.Decode(block, b.Codec, packed); err != nil {
		return nil, nil, failure.Annotate(err, "read pack", pack.Name().String())
	}
	return packed, block, nil
}
