package format

import (
	"crypto/cipher"
	"encoding/binary"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

const (
	packHeaderSize = prefixSize + len(PackName{})
	recordSize     = len(Digest{}) + 4 + 4 + 1 + 2 + 4
	maxSource      = 1<<16 - 1
	maxTrailer     = 2 + maxSource + MaxPackBlocks*recordSize + tagSize
	footerSize     = 4 + 8
	// MaxPackSize bounds a pack, and so every offset in one.
	MaxPackSize = 1 << 30
	// MaxPackBlocks bounds a pack's trailer to 3 MiB.
	MaxPackBlocks = 65536
	// MaxSealed is the largest block as it is in a pack.
	MaxSealed = codec.MaxBlock + tagSize
)

// PackRef names a pack and the key generation that it was written under: all that opening its blocks takes.
type PackRef struct {
	Name       PackName
	Generation uint32
}

// Block is one block in a pack.
type Block struct {
	Digest Digest   // of the raw block
	Codec  codec.ID // what was sealed is compressed by it
	Raw    uint32   // bytes of the raw block
	Offset uint32   // of the sealed block in the pack
	Length uint32   // bytes of the sealed block, with its tag
}

func (b Block) end() int64 { return int64(b.Offset) + int64(b.Length) }

// check makes sure that reading the block takes no more memory than any block does.
func (b Block) check() error {
	if b.Raw == 0 || b.Raw > codec.MaxBlock || b.Length <= tagSize || b.Length > MaxSealed ||
		int(b.Offset) < packHeaderSize || b.end() > MaxPackSize {
		return failure.New(failure.Corrupt, "read block", b.Digest.String(), "%d bytes at %d, for %d, are out of range",
			b.Length, b.Offset, b.Raw)
	}
	return nil
}

// Source is what a pack's blocks were read from. With the origins of the blocks, maps that are lost can be made again.
type Source struct {
	Archive string         `json:"archive"` // the id that the writer was going to commit
	Volumes []SourceVolume `json:"volumes,omitempty"`
}

// SourceVolume is a volume of a Source.
type SourceVolume struct {
	Store uint64 `json:"store,string"`
	Role  string `json:"role"`
}

// Origin is where a block was first read: the number of the volume in the pack's source, and of the block in it.
type Origin struct {
	Volume uint16
	Index  uint32
}

// Entry is a block in a pack's trailer.
type Entry struct {
	Block
	Origin
}

// Contents is what a pack records of itself.
type Contents struct {
	Ref    PackRef
	Source Source
	Blocks []Entry
}

// Pack opens the blocks of one pack. It is safe for concurrent use.
type Pack struct {
	ref   PackRef
	aead  cipher.AEAD
	idKey []byte
}

// Pack returns the opener of a pack's blocks.
func (k *Keyring) Pack(ref PackRef) (*Pack, error) {
	aead, err := k.aead(ref.Generation, "pack", ref.Name[:])
	if err != nil {
		return nil, failure.Annotate(err, "open pack", ref.Name.Path())
	}
	idKey, err := k.derive(ref.Generation, "block id")
	return &Pack{ref: ref, aead: aead, idKey: idKey}, err
}

// Name is the pack's.
func (p *Pack) Name() PackName { return p.ref.Name }

// bind is the data that is authenticated with a block. Its nonce binds the position, and its key the pack.
func (p *Pack) bind(b Block) []byte {
	aad := mac(p.idKey, b.Digest[:])
	return append(binary.BigEndian.AppendUint32(aad, b.Raw), byte(b.Codec))
}

// seal appends the sealed block to dst.
func (p *Pack) seal(dst []byte, b Block, packed []byte) []byte {
	return p.aead.Seal(dst, nonce(int64(b.Offset)), packed, p.bind(b))
}

// Open appends to dst what was compressed, from a sealed block that is the pack's bytes at b.
func (p *Pack) Open(dst []byte, b Block, sealed []byte) ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, failure.Annotate(err, "open block", p.ref.Name.Path())
	}
	if len(sealed) != int(b.Length) {
		return nil, failure.New(failure.Corrupt, "open block", p.ref.Name.Path(), "got %d bytes at %d, not %d",
			len(sealed), b.Offset, b.Length)
	}
	out, err := p.aead.Open(dst, nonce(int64(b.Offset)), sealed, p.bind(b))
	if err != nil {
		return nil, failure.New(failure.Corrupt, "open block", p.ref.Name.Path(),
			"block %s at %d is not what was written", b.Digest, b.Offset)
	}
	return out, nil
}
