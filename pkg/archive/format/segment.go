package format

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	// SegmentBlocks is how many blocks of a volume a segment is about; the last one of a volume has fewer.
	SegmentBlocks = 65536
	// maxSegment bounds an encoded segment; one whose blocks are all in packs of their own has less.
	maxSegment  = 8 << 20
	sivSize     = sha256.Size
	segmentSalt = 16                   // bytes that may follow the columns, to make a segment's name unique
	sealedStart = prefixSize + sivSize // where the ciphertext of a segment or archive begins
)

// State is what an archive knows of a block of a volume.
type State uint8

// The states of format version 1.
const (
	Absent State = 0 // never written: not in the snapshot
	Zero   State = 1 // read, and all its bytes are zero
	Free   State = 2 // not read, since the file system does not use it
	Saved  State = 3 // in a pack
)

// Place is where a block of a volume is. Pack and Block are those of a Saved one.
type Place struct {
	State State
	Pack  PackRef
	Block Block
}

// Segment is a part of a volume's map: up to SegmentBlocks places, in the volume's order.
type Segment []Place

// Saved is how many of its blocks are saved.
func (s Segment) Saved() (n int64) {
	for i := range s {
		if s[i].State == Saved {
			n++
		}
	}
	return n
}

// Proof is what an archive keeps of a segment besides its name: the SHA-256 over each saved block's number in the
// segment and its digest. A map that is lost can be made again, from wherever the blocks are known, if it has the proof
// of the lost one: it then restores the same.
func (s Segment) Proof() Digest {
	h := sha256.New()
	var number [4]byte
	for i := range s {
		if s[i].State == Saved {
			binary.BigEndian.PutUint32(number[:], saturate.To[uint32](i))
			h.Write(number[:])
			h.Write(s[i].Block.Digest[:])
		}
	}
	return Digest(h.Sum(nil))
}

// Seal returns a segment's name and its object. Equal segments have equal names, under one key generation: where there
// are prunes, SealUnique is needed.
func (s Segment) Seal(keys *Keyring) (SegmentName, []byte, error) {
	plain, err := s.encode()
	if err != nil {
		return SegmentName{}, nil, err
	}
	return sealSegment(keys, plain)
}

// SealUnique is Seal under a name that no segment ever had. So a prune that is late, and deletes what it found to be
// garbage, never hits a segment that was written since.
func (s Segment) SealUnique(keys *Keyring) (SegmentName, []byte, error) {
	plain, err := s.encode()
	if err != nil {
		return SegmentName{}, nil, err
	}
	salt := make([]byte, segmentSalt)
	random(salt)
	return sealSegment(keys, append(plain, salt...))
}

func sealSegment(keys *Keyring, plain []byte) (SegmentName, []byte, error) {
	name, err := segmentName(keys, keys.Generation(), plain)
	if err != nil {
		return name, nil, err
	}
	packed, err := inZstd(plain)
	if err != nil {
		return name, nil, err
	}
	return sealPacked(keys, name, packed)
}

// sealPacked derives the object's key from all that it encrypts: as long as that is the same, so is the object, and
// whatever differs, were it only by another version of the compressor, has a key of its own.
func sealPacked(keys *Keyring, name SegmentName, packed []byte) (SegmentName, []byte, error) {
	sivKey, err := keys.derive(keys.Generation(), "segment siv")
	if err != nil {
		return name, nil, err
	}
	object, err := keys.sealObject(kindSegment, name.Path(), "segment", name[:], mac(sivKey, name[:], packed), packed)
	return name, object, err
}

func segmentName(keys *Keyring, generation uint32, plain []byte) (SegmentName, error) {
	key, err := keys.derive(generation, "segment name")
	if err != nil {
		return SegmentName{}, err
	}
	return SegmentName(mac(key, plain)), nil
}

// OpenSegment returns the segment with this name from its object.
func OpenSegment(keys *Keyring, name SegmentName, object []byte) (Segment, error) {
	s, err := openSegment(keys, name, object)
	return s, failure.Annotate(err, "open segment", name.Path())
}

func openSegment(keys *Keyring, name SegmentName, object []byte) (Segment, error) {
	packed, generation, err := openObject(keys, kindSegment, object, name.Path(), "segment", name[:])
	if err != nil {
		return nil, err
	}
	plain, err := unzstd(packed, maxSegment)
	if err != nil {
		return nil, err
	}
	is, err := segmentName(keys, generation, plain)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(is[:], name[:]) == 0 {
		return nil, failure.New(failure.Corrupt, "", "", "its content is that of %s", is.Path())
	}
	return decodeSegment(plain)
}

// Checksum is what EBS calls linear: the SHA-256 over the digests of a volume's saved blocks, by ascending index.
type Checksum struct {
	h    hash.Hash
	next []byte // digests that are hashed together: one at a time would take an allocation each
}

// NewChecksum returns the one of no block.
func NewChecksum() *Checksum { return &Checksum{sha256.New(), make([]byte, 0, 64*len(Digest{}))} }

// Add takes the next block's digest.
func (c *Checksum) Add(d Digest) {
	if c.next = append(c.next, d[:]...); len(c.next) == cap(c.next) {
		c.flush()
	}
}

func (c *Checksum) flush() {
	c.h.Write(c.next)
	c.next = c.next[:0]
}

// Sum is that of the blocks so far.
func (c *Checksum) Sum() Digest {
	c.flush()
	return Digest(c.h.Sum(nil))
}
