package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ReadPack returns the contents that a pack lists in its trailer. It reads the header and the trailer alone: that
// the blocks themselves are sound, only opening them shows.
func ReadPack(r io.ReaderAt, size int64, keys *Keyring, name PackName) (Contents, error) {
	c, err := readPack(r, size, keys, name)
	return c, failure.Annotate(err, "read pack", name.Path())
}

func readPack(r io.ReaderAt, size int64, keys *Keyring, name PackName) (Contents, error) {
	var none Contents
	if size < int64(packHeaderSize+recordSize+tagSize+footerSize) || size > MaxPackSize {
		return none, failure.New(failure.Corrupt, "", "", "%d bytes are no pack", size)
	}
	header := make([]byte, packHeaderSize)
	if err := readAt(r, header, 0); err != nil {
		return none, err
	}
	generation, err := keys.checkHeader(kindPack, header)
	if err != nil {
		return none, err
	}
	if is := PackName(header[prefixSize:]); is != name {
		return none, failure.New(failure.Corrupt, "", "", "it is pack %s", is)
	}
	footer := make([]byte, footerSize)
	if err := readAt(r, footer, size-footerSize); err != nil {
		return none, err
	}
	length := int64(binary.BigEndian.Uint32(footer))
	if !bytes.Equal(footer[4:], magic(kindEnd)) || length > int64(maxTrailer) ||
		length > size-footerSize-int64(packHeaderSize) {
		return none, failure.New(failure.Corrupt, "", "", "its last bytes %x end no pack", footer)
	}
	sealed := make([]byte, length)
	start := size - footerSize - length
	if err := readAt(r, sealed, start); err != nil {
		return none, err
	}
	pack, err := keys.Pack(PackRef{Name: name, Generation: generation})
	if err != nil {
		return none, err
	}
	plain, err := pack.aead.Open(nil, nonce(start), sealed, header)
	if err != nil {
		return none, failure.New(failure.Corrupt, "", "", "its trailer is not what was written")
	}
	source, blocks, err := decodeTrailer(plain, start)
	return Contents{Ref: pack.ref, Source: source, Blocks: blocks}, err
}

func readAt(r io.ReaderAt, buf []byte, at int64) error {
	n, err := r.ReadAt(buf, at)
	if n == len(buf) {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return failure.New(failure.Corrupt, "", "", "it ends before byte %d", at+int64(len(buf)))
	}
	return failure.Annotate(err, "read", "")
}
