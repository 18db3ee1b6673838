package tikvtest

import (
	"encoding/binary"
	"errors"

	tikvcodec "github.com/tikv/client-go/v2/util/codec"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

var errShort = errors.New("record is shorter than its length")

// appendBytes appends b with its length in front.
func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// appendMutations appends muts with their number in front.
func appendMutations(dst []byte, muts []mvcc.Mutation) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(muts)))
	for _, m := range muts {
		flags := byte(m.CF) << 1
		if m.Delete {
			flags |= 1
		}
		dst = append(dst, flags)
		dst = appendBytes(dst, m.Key)
		if !m.Delete {
			dst = appendBytes(dst, m.Value)
		}
	}
	return dst
}

// decoder reads what the append functions wrote. After the first error all results are zero.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.fail()
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

// bytes returns a part of the input, not a copy.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) mutations() []mvcc.Mutation {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	muts := make([]mvcc.Mutation, 0, n)
	for range n {
		flags := d.byte()
		m := mvcc.Mutation{CF: mvcc.CF(flags >> 1), Delete: flags&1 != 0, Key: d.bytes()}
		if !m.Delete {
			m.Value = d.bytes()
		}
		if m.CF >= cfCount {
			d.fail()
		}
		muts = append(muts, m)
	}
	return muts
}

func (d *decoder) fail() {
	d.b = nil
	if d.err == nil {
		d.err = errShort
	}
}

// encodeKey is the memcomparable form of a raw key; an empty key, which stands for an end of the key space,
// stays empty.
func encodeKey(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return tikvcodec.EncodeBytes(nil, key)
}
