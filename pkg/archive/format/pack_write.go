package format

import (
	"encoding/binary"
	"encoding/json"
	"io"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// availableBuffer is a writer in memory that blocks are sealed in, as a bytes.Buffer is.
type availableBuffer interface{ AvailableBuffer() []byte }

// PackWriter writes one pack as a stream. It is for one goroutine.
type PackWriter struct {
	w      io.Writer
	pack   *Pack
	header []byte
	source []byte
	blocks []Entry
	at     int64
	buf    []byte
	failed error // after it, nothing more is sealed: an offset is a nonce
}

// NewPackWriter starts a pack for blocks of a source. It must never get a name twice, not even that of an unfinished
// pack: the pack's key depends on it.
func NewPackWriter(w io.Writer, keys *Keyring, source Source, name PackName) (*PackWriter, error) {
	pack, err := keys.Pack(PackRef{Name: name, Generation: keys.Generation()})
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(source)
	if err == nil && len(text) > maxSource {
		err = failure.New(failure.Usage, "", "", "its source takes %d bytes, at most %d are allowed", len(text),
			maxSource)
	}
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "start pack", name.Path())
	}
	p := &PackWriter{w: w, pack: pack, source: text, header: keys.header(kindPack, name[:])}
	return p, p.write(p.header)
}

// Ref names the pack.
func (p *PackWriter) Ref() PackRef { return p.pack.ref }

// Size is how many bytes the pack has if it is closed now.
func (p *PackWriter) Size() int64 {
	return p.at + int64(2+len(p.source)+len(p.blocks)*recordSize+tagSize+footerSize)
}

// Full reports whether the pack can take no other block.
func (p *PackWriter) Full() bool {
	return len(p.blocks) == MaxPackBlocks || p.Size()+MaxSealed+int64(recordSize) > MaxPackSize
}

// Add seals a block of raw bytes with this digest, as its codec packed it, and returns where it is.
func (p *PackWriter) Add(from Origin, digest Digest, raw int, id codec.ID, packed []byte) (Block, error) {
	if p.failed != nil {
		return Block{}, p.failed
	}
	b := Block{
		Digest: digest, Codec: id, Raw: saturate.To[uint32](raw), Offset: saturate.To[uint32](p.at),
		Length: saturate.To[uint32](len(packed) + tagSize),
	}
	if p.Full() || raw > codec.MaxBlock || len(packed) > codec.MaxBlock || b.check() != nil {
		return Block{}, failure.New(failure.Usage, "add block", p.pack.ref.Name.Path(),
			"a block of %d bytes, packed to %d, does not fit at %d", raw, len(packed), p.at)
	}
	if w, ok := p.w.(availableBuffer); ok {
		p.buf = w.AvailableBuffer()
	}
	p.buf = p.pack.seal(p.buf[:0], b, packed)
	if err := p.write(p.buf); err != nil {
		return Block{}, err
	}
	p.blocks = append(p.blocks, Entry{Block: b, Origin: from})
	return b, nil
}

// Close writes the trailer. A pack has at least one block.
func (p *PackWriter) Close() error {
	if p.failed == nil && len(p.blocks) == 0 {
		p.failed = failure.New(failure.Usage, "close pack", p.pack.ref.Name.Path(), "it has no block")
	}
	if p.failed != nil {
		return p.failed
	}
	sealed := p.pack.aead.Seal(nil, nonce(p.at), encodeTrailer(p.source, p.blocks), p.header)
	out := binary.BigEndian.AppendUint32(sealed, saturate.To[uint32](len(sealed)))
	if err := p.write(append(out, magic(kindEnd)...)); err != nil {
		return err
	}
	p.failed = failure.New(failure.Usage, "add block", p.pack.ref.Name.Path(), "the pack is closed")
	return nil
}

func (p *PackWriter) write(data []byte) error {
	n, err := p.w.Write(data)
	p.at += int64(n)
	p.failed = failure.Annotate(err, "write pack", p.pack.ref.Name.Path())
	return p.failed
}
