package mvcc

import (
	"encoding/binary"
	"math"

	"github.com/tikv/client-go/v2/util/codec"
)

const (
	tsLen        = 8
	physicalBits = 18 // of a timestamp are below the milliseconds
)

// EncodeKey turns a user key into the form that regions and the lock column family use.
func EncodeKey(user []byte) []byte { return codec.EncodeBytes(nil, user) }

// DecodeKey turns an encoded key into the user key; a key that is not well-formed comes back as it is.
func DecodeKey(encoded []byte) []byte {
	_, user, err := codec.DecodeBytes(encoded, nil)
	if err != nil {
		return encoded
	}
	return user
}

// versioned is the engine key of an encoded key at a timestamp. Newer timestamps sort first.
func versioned(encoded []byte, ts uint64) []byte {
	k := make([]byte, len(encoded), len(encoded)+tsLen+1)
	copy(k, encoded)
	return binary.BigEndian.AppendUint64(k, math.MaxUint64-ts)
}

// afterVersions is the least engine key behind all versions of an encoded key.
func afterVersions(encoded []byte) []byte { return append(versioned(encoded, 0), 0) }

// splitVersioned cuts an engine key into encoded key and timestamp.
func splitVersioned(k []byte) (encoded []byte, ts uint64) {
	if len(k) < tsLen {
		return k, 0
	}
	n := len(k) - tsLen
	return k[:n:n], math.MaxUint64 - binary.BigEndian.Uint64(k[n:])
}

// bound encodes a user key that limits a range; empty stays empty.
func bound(user []byte) []byte {
	if len(user) == 0 {
		return nil
	}
	return EncodeKey(user)
}
