package format

import (
	"encoding/binary"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// encode returns the segment in columns. Equal segments have equal encodings: packs are numbered by their first use.
func (s Segment) encode() ([]byte, error) {
	if len(s) == 0 || len(s) > SegmentBlocks {
		return nil, failure.New(failure.Usage, "encode segment", "", "%d blocks are not 1 to %d", len(s), SegmentBlocks)
	}
	var saved []Block
	var runs, table, packs, offsets, lengths, missing []byte
	numbers, ends, last := map[PackRef]int{}, map[int]int64{}, 0
	for i, run := 0, 0; i < len(s); i++ {
		p := s[i]
		if p.State > Saved {
			return nil, failure.New(failure.Usage, "encode segment", "", "block %d has the unknown state %d", i,
				p.State)
		}
		if run++; i+1 == len(s) || s[i+1].State != p.State { //nolint:gosec // there is one
			runs = binary.AppendUvarint(runs, saturate.To[uint64](run)<<2|uint64(p.State))
			run = 0
		}
		if p.State != Saved {
			continue
		}
		if err := p.Block.check(); err != nil {
			return nil, failure.Annotate(err, "encode segment", "")
		}
		n, known := numbers[p.Pack]
		if !known {
			n = len(numbers)
			numbers[p.Pack], ends[n] = n, int64(packHeaderSize)
			table = binary.AppendUvarint(append(table, p.Pack.Name[:]...), uint64(p.Pack.Generation))
		}
		packs = binary.AppendVarint(packs, int64(n-last))
		offsets = binary.AppendVarint(offsets, int64(p.Block.Offset)-ends[n])
		lengths = binary.AppendUvarint(lengths, uint64(p.Block.Length))
		missing = binary.AppendUvarint(missing, uint64(codec.MaxBlock-p.Block.Raw))
		last, ends[n] = n, p.Block.end()
		saved = append(saved, p.Block)
	}
	out := binary.AppendUvarint(nil, uint64(len(s)))
	out = binary.AppendUvarint(append(out, runs...), uint64(len(numbers)))
	for _, column := range [][]byte{table, packs, offsets, lengths, missing} {
		out = append(out, column...)
	}
	for _, b := range saved {
		out = append(out, byte(b.Codec))
	}
	for _, b := range saved {
		out = append(out, b.Digest[:]...)
	}
	return out, nil
}

// decodeSegment reads what encode wrote.
func decodeSegment(data []byte) (Segment, error) {
	r := &columns{data: data}
	s, saved := r.states()
	table := r.packs(len(saved))
	ends := make([]int64, len(table))
	for i := range ends {
		ends[i] = int64(packHeaderSize)
	}
	number := make([]int32, len(saved))
	last := int64(0)
	for i, at := range saved {
		last += r.signed()
		if last < 0 || last >= int64(len(table)) {
			return nil, r.end("pack number %d of %d", last, len(table))
		}
		number[i], s[at].Pack = saturate.To[int32](last), table[last]
	}
	offsets := make([]int64, len(saved))
	for i := range saved {
		offsets[i] = r.signed()
	}
	for _, at := range saved {
		s[at].Block.Length = saturate.To[uint32](r.unsigned(MaxSealed))
	}
	for i, place := range saved {
		p := &s[place]
		p.Block.Raw = codec.MaxBlock - saturate.To[uint32](r.unsigned(codec.MaxBlock))
		at := ends[number[i]] + offsets[i]
		if at < 0 || at > MaxPackSize {
			return nil, r.end("offset %d", at)
		}
		p.Block.Offset = saturate.To[uint32](at)
		ends[number[i]] = p.Block.end()
	}
	for i, c := range r.take(len(saved)) {
		s[saved[i]].Block.Codec = codec.ID(c)
	}
	for _, at := range saved {
		copy(s[at].Block.Digest[:], r.take(len(Digest{})))
	}
	if n := len(r.data); r.err != nil || n != 0 && n != segmentSalt {
		return nil, r.end("%d bytes too many", n)
	}
	for _, at := range saved {
		if err := s[at].Block.check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// columns reads an encoded segment. After an error it reads zeros.
type columns struct {
	data []byte
	err  error
}

// end returns the first error, or else this one.
func (r *columns) end(format string, args ...any) error {
	if r.err == nil {
		r.err = failure.New(failure.Corrupt, "decode segment", "", format, args...)
	}
	r.data = nil
	return r.err
}

func (r *columns) take(n int) []byte {
	if r.err != nil || n > len(r.data) {
		_ = r.end("it ends early")
		return nil
	}
	out := r.data[:n]
	r.data = r.data[n:]
	return out
}

func (r *columns) unsigned(most uint64) uint64 {
	v, n := binary.Uvarint(r.data)
	if r.err != nil || n <= 0 || v > most {
		_ = r.end("a number is not one of 0 to %d", most)
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *columns) signed() int64 {
	v, n := binary.Varint(r.data)
	if r.err != nil || n <= 0 || v < -MaxPackSize || v > MaxPackSize {
		_ = r.end("a difference is out of range")
		return 0
	}
	r.data = r.data[n:]
	return v
}

// states returns the segment with its states, and where its saved places are: pointers to them would cost the garbage
// collector more than decoding them.
func (r *columns) states() (Segment, []int32) {
	s := make(Segment, r.unsigned(SegmentBlocks))
	if len(s) == 0 {
		_ = r.end("it has no blocks")
	}
	saved := make([]int32, 0, len(s))
	for i := 0; i < len(s) && r.err == nil; {
		v := r.unsigned(SegmentBlocks<<2 | 3)
		run, state := saturate.To[int](v>>2), saturate.To[State](v&3)
		if run == 0 || run > len(s)-i {
			_ = r.end("a run of %d blocks at %d of %d", run, i, len(s))
			break
		}
		for range run {
			if s[i].State = state; state == Saved {
				saved = append(saved, saturate.To[int32](i))
			}
			i++
		}
	}
	return s, saved
}

// packs returns the table of the packs that blocks of this number are in.
func (r *columns) packs(blocks int) []PackRef {
	table := make([]PackRef, r.unsigned(saturate.To[uint64](blocks)))
	for i := range table {
		copy(table[i].Name[:], r.take(len(PackName{})))
		table[i].Generation = saturate.To[uint32](r.unsigned(maxGenerations))
	}
	return table
}
