package tikv

import (
	"encoding/binary"
	"errors"
	"math"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// RegionMeta is decoded by hand: there are millions of them, and the generated code allocates a message and two
// keys for each.

var (
	errCutOff   = errors.New("region meta is cut off")
	errVarint   = errors.New("region meta has a number of more than 64 bits")
	errWireType = errors.New("region meta has a field of an unexpected type")
)

// Wire types of protocol buffers.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// decodeRegionMeta decodes a recover_data.RegionMeta, whose keys alias data. It skips unknown fields, as protocol
// buffers require.
func decodeRegionMeta(data []byte, m *RegionMeta) error {
	*m = RegionMeta{}
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return badVarint(n)
		}
		if tag > math.MaxUint32 {
			return errWireType
		}
		data = data[n:]
		field, wire := tag>>3, tag&7
		switch wire {
		case wireVarint:
			v, n := binary.Uvarint(data)
			if n <= 0 {
				return badVarint(n)
			}
			data = data[n:]
			if !m.setNumber(field, v) {
				return errWireType
			}
		case wireBytes:
			size, n := binary.Uvarint(data)
			if n <= 0 {
				return badVarint(n)
			}
			data = data[n:]
			if size > uint64(len(data)) {
				return errCutOff
			}
			if !m.setBytes(field, data[:size]) {
				return errWireType
			}
			data = data[size:]
		case wireFixed64, wireFixed32:
			size := 8
			if wire == wireFixed32 {
				size = 4
			}
			if len(data) < size {
				return errCutOff
			}
			if field <= fieldEndKey {
				return errWireType
			}
			data = data[size:]
		default:
			return errWireType
		}
	}
	return nil
}

func badVarint(n int) error {
	if n < 0 {
		return errVarint
	}
	return errCutOff
}

// Field numbers of recover_data.RegionMeta.
const (
	fieldRegionID    = 1
	fieldPeerID      = 2
	fieldLastLogTerm = 3
	fieldLastIndex   = 4
	fieldCommitIndex = 5
	fieldVersion     = 6
	fieldTombstone   = 7
	fieldStartKey    = 8
	fieldEndKey      = 9
)

// setNumber reports whether the field may be a number.
func (m *RegionMeta) setNumber(field, v uint64) bool {
	switch field {
	case fieldRegionID:
		m.Region = cluster.RegionID(v)
	case fieldPeerID:
		m.PeerID = cluster.PeerID(v)
	case fieldLastLogTerm:
		m.LastLogTerm = v
	case fieldLastIndex:
		m.LastIndex = v
	case fieldCommitIndex:
		m.CommitIndex = v
	case fieldVersion:
		m.Version = v
	case fieldTombstone:
		m.Tombstone = v != 0
	default:
		return field > fieldEndKey
	}
	return true
}

// setBytes reports whether the field may be bytes.
func (m *RegionMeta) setBytes(field uint64, v []byte) bool {
	switch field {
	case fieldStartKey:
		m.Keys.Start = v
	case fieldEndKey:
		m.Keys.End = v
	default:
		return field > fieldEndKey
	}
	return true
}

// rawMessage is a message as received, in memory that the next one overwrites.
type rawMessage struct{ data []byte }

// rawCodec returns responses as bytes. Requests are encoded as usual.
type rawCodec struct{}

var _ encoding.CodecV2 = rawCodec{}

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(interface{ Marshal() ([]byte, error) })
	if !ok {
		return nil, errors.New("the request is not a protobuf message")
	}
	data, err := message.Marshal()
	if err != nil {
		return nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, nil
}

// Unmarshal implements encoding.CodecV2.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	raw, ok := v.(*rawMessage)
	if !ok {
		return errors.New("the response is not read as a rawMessage")
	}
	raw.data = raw.data[:0]
	for _, b := range data {
		raw.data = append(raw.data, b.ReadOnlyData()...)
	}
	return nil
}

// Name implements encoding.CodecV2. It is empty, so that the content type on the wire stays the default.
func (rawCodec) Name() string { return "" }
