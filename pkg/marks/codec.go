package marks

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// The format is magic, with the format's version, then in one gzip stream the number of marks and four columns: region
// ids as deltas, versions and terms as signed deltas, and indexes. All numbers are varints. Columns of similar numbers
// compress several times better than rows.
const magic = "tisnap-marks/1\n"

// maxMarks bounds what a decoder allocates: TiDB's largest clusters have a few million regions.
const maxMarks = 1 << 27

var (
	errMagic = errors.New("not a marks file of format 1")
	errCount = errors.New("it claims more marks than a cluster has regions")
	errOrder = errors.New("its regions are not in order")
	errTail  = errors.New("data after the marks")
)

// Encode returns the set in compact form, some 7 bytes per region.
func (s *Set) Encode() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(magic)
	zip, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "encode marks", "")
	}
	w := &writer{to: zip}
	w.number(saturate.To[uint64](s.Len()))
	before := Mark{}
	for _, m := range s.list() {
		w.number(uint64(m.Region - before.Region))
		before = m
	}
	before = Mark{}
	for _, m := range s.list() {
		w.difference(m.Version, before.Version)
		before = m
	}
	before = Mark{}
	for _, m := range s.list() {
		w.difference(m.Term, before.Term)
		before = m
	}
	for _, m := range s.list() {
		w.number(m.Index)
	}
	w.flush()
	if err := errors.Join(w.err, zip.Close()); err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "encode marks", "")
	}
	return out.Bytes(), nil
}

func (s *Set) list() []Mark {
	if s == nil {
		return nil
	}
	return s.marks
}

// Decode reads what Encode wrote. Anything else is Corrupt.
func Decode(body []byte) (*Set, error) {
	set, err := decode(body)
	return set, failure.Wrap(err, failure.Corrupt, "decode marks", "")
}

func decode(body []byte) (*Set, error) {
	rest, ok := bytes.CutPrefix(body, []byte(magic))
	if !ok {
		return nil, errMagic
	}
	zip, err := gzip.NewReader(bytes.NewReader(rest))
	if err != nil {
		return nil, err
	}
	r := &reader{from: bufio.NewReader(zip)}
	n := r.number()
	// A mark takes at least 4 bytes, and gzip compresses at most about a thousandfold.
	if n > maxMarks || n > uint64(len(rest))*1024 {
		return nil, errCount
	}
	marks := make([]Mark, n)
	region := uint64(0)
	for i := range marks {
		d := r.number()
		if d == 0 && i > 0 || d > math.MaxUint64-region {
			r.fail(errOrder)
		}
		region += d
		marks[i].Region = cluster.RegionID(region)
	}
	before := uint64(0)
	for i := range marks {
		before = r.difference(before)
		marks[i].Version = before
	}
	before = 0
	for i := range marks {
		before = r.difference(before)
		marks[i].Term = before
	}
	for i := range marks {
		marks[i].Index = r.number()
	}
	if r.err != nil {
		return nil, r.err
	}
	if _, err := r.from.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errTail, err)
	}
	return &Set{marks: marks}, nil
}

// writer writes numbers until an error.
type writer struct {
	to  io.Writer
	buf []byte
	err error
}

func (w *writer) number(v uint64) {
	w.buf = binary.AppendUvarint(w.buf, v)
	w.room()
}

func (w *writer) difference(v, before uint64) {
	d := v - before
	w.buf = binary.AppendUvarint(w.buf, d<<1^-(d>>63)) // as AppendVarint writes the signed difference
	w.room()
}

func (w *writer) room() {
	if len(w.buf) > 1<<15 {
		w.flush()
	}
}

func (w *writer) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// reader reads numbers; after an error all are 0.
type reader struct {
	from io.ByteReader
	err  error
}

func (r *reader) number() uint64 {
	if r.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(r.from)
	r.fail(err)
	return v
}

func (r *reader) difference(before uint64) uint64 {
	if r.err != nil {
		return 0
	}
	d, err := binary.ReadUvarint(r.from)
	r.fail(err)
	return before + (d>>1 ^ -(d & 1)) // see difference of writer
}

func (r *reader) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if r.err == nil {
		r.err = err
	}
}
