package format

import (
	"encoding/binary"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Version is that of the format, in repo.json and in each object.
const Version = 1

const (
	kindPack    = 'P'
	kindSegment = 'S'
	kindArchive = 'A'
	kindEnd     = 'E'
	kindUnit    = 'W'
	prefixSize  = 32 // what the headers of all kinds begin with
)

func magic(kind byte) []byte { return append([]byte("tisnap"), kind, Version) }

// header returns an object's first bytes: the common prefix, and what the kind adds.
func (k *Keyring) header(kind byte, own []byte) []byte {
	out := append(magic(kind), k.id[:]...)
	out = binary.BigEndian.AppendUint32(out, k.Generation())
	return append(append(out, 0, 0, 0, 0), own...)
}

// checkHeader returns the key generation in an object's header, of which data has the prefix at least.
func (k *Keyring) checkHeader(kind byte, data []byte) (uint32, error) {
	const op = "read header"
	if len(data) < prefixSize || string(data[:6]) != "tisnap" || data[6] != kind {
		return 0, failure.New(failure.Corrupt, op, "", "it does not begin as an object of kind %c does", kind)
	}
	if data[7] != Version {
		return 0, failure.New(failure.Usage, op, "", "format version %d is unknown, only %d is", data[7], Version).
			WithHint("Use a newer tisnap.")
	}
	if id := RepositoryID(data[8:24]); id != k.id {
		return 0, failure.New(failure.Corrupt, op, "", "it belongs to repository %s, not %s", id, k.id)
	}
	if reserved := binary.BigEndian.Uint32(data[28:]); reserved != 0 {
		return 0, failure.New(failure.Corrupt, op, "", "its reserved bytes are %08x", reserved)
	}
	return binary.BigEndian.Uint32(data[24:]), nil
}
