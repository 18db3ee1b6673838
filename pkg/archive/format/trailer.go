package format

import (
	"encoding/binary"
	"encoding/json"
	"slices"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// encodeTrailer takes the source in JSON, of at most maxSource bytes.
func encodeTrailer(source []byte, blocks []Entry) []byte {
	out := make([]byte, 0, 2+len(source)+len(blocks)*recordSize+tagSize)
	out = binary.BigEndian.AppendUint16(out, saturate.To[uint16](len(source)))
	out = append(out, source...)
	for _, b := range blocks {
		out = append(out, b.Digest[:]...)
		out = binary.BigEndian.AppendUint32(out, b.Length)
		out = binary.BigEndian.AppendUint32(out, b.Raw)
		out = append(out, byte(b.Codec))
		out = binary.BigEndian.AppendUint16(out, b.Volume)
		out = binary.BigEndian.AppendUint32(out, b.Index)
	}
	return out
}

// decodeTrailer returns the source and the blocks of a pack, which fill it from the header to end.
func decodeTrailer(data []byte, end int64) (Source, []Entry, error) {
	const op = "read trailer"
	var source Source
	if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
		return source, nil, failure.New(failure.Corrupt, op, "", "%d bytes are too few", len(data))
	}
	size := int(binary.BigEndian.Uint16(data))
	text, data := data[2:2+size], data[2+size:]
	if err := json.Unmarshal(text, &source); err != nil {
		return source, nil, failure.Wrap(err, failure.Corrupt, op, "")
	}
	if n := len(data) / recordSize; len(data)%recordSize != 0 || n == 0 || n > MaxPackBlocks {
		return source, nil, failure.New(failure.Corrupt, op, "", "%d bytes are not 1 to %d records", len(data),
			MaxPackBlocks)
	}
	blocks, at := make([]Entry, 0, len(data)/recordSize), int64(packHeaderSize)
	for r := range slices.Chunk(data, recordSize) {
		b := Entry{
			Block: Block{
				Digest: Digest(r[:32]), Length: binary.BigEndian.Uint32(r[32:]), Raw: binary.BigEndian.Uint32(r[36:]),
				Codec: codec.ID(r[40]), Offset: saturate.To[uint32](at),
			},
			Origin: Origin{Volume: binary.BigEndian.Uint16(r[41:]), Index: binary.BigEndian.Uint32(r[43:])},
		}
		if err := b.check(); err != nil {
			return source, nil, err
		}
		at = b.end()
		blocks = append(blocks, b)
	}
	if at != end {
		return source, nil, failure.New(failure.Corrupt, op, "", "its blocks end at %d, not at %d", at, end)
	}
	return source, blocks, nil
}
