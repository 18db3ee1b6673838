package format

import (
	"bytes"
	"encoding/binary"
	"io"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ReadPack returns a pack's reference and its blocks from its trailer. It reads the header and the trailer alone: that
// the blocks themselves are sound, only opening them shows.
func ReadPack(r io.ReaderAt, size int64, keys *Keyring, name PackName) (PackRef, []Block, error) {
	ref, blocks, err := readPack(r, size, keys, name)
	return ref, blocks, failure.Annotate(err, "read pack", name.Path())
}

func readPack(r io.ReaderAt, size int64, keys *Keyring, name PackName) (PackRef, []Block, error) {
	var none PackRef
	if size < int64(packHeaderSize+recordSize+tagSize+footerSize) || size > MaxPackSize {
		return none, nil, failure.New(failure.Corrupt, "", "", "%d bytes are no pack", size)
	}
	header := make([]byte, packHeaderSize)
	if err := readAt(r, header, 0); err != nil {
		return none, nil, err
	}
	generation, err := keys.checkHeader(kindPack, header)
	if err != nil {
		return none, nil, err
	}
	if is := PackName(header[prefixSize:]); is != name {
		return none, nil, failure.New(failure.Corrupt, "", "", "it is pack %s", is)
	}
	footer := make([]byte, footerSize)
	if err := readAt(r, footer, size-footerSize); err != nil {
		return none, nil, err
	}
	length := int64(binary.BigEndian.Uint32(footer))
	if !bytes.Equal(footer[4:], magic(kindEnd)) || length > MaxPackBlocks*int64(recordSize)+tagSize ||
		length > size-footerSize-int64(packHeaderSize) {
		return none, nil, failure.New(failure.Corrupt, "", "", "its last bytes %x end no pack", footer)
	}
	sealed := make([]byte, length)
	start := size - footerSize - length
	if err := readAt(r, sealed, start); err != nil {
		return none, nil, err
	}
	pack, err := keys.Pack(PackRef{Name: name, Generation: generation})
	if err != nil {
		return none, nil, err
	}
	plain, err := pack.aead.Open(nil, nonce(start), sealed, header)
	if err != nil {
		return none, nil, failure.New(failure.Corrupt, "", "", "its trailer is not what was written")
	}
	blocks, err := decodeTrailer(plain, start)
	return pack.ref, blocks, err
}

func readAt(r io.ReaderAt, buf []byte, at int64) error {
	n, err := r.ReadAt(buf, at)
	if n == len(buf) {
		return nil
	}
	return failure.Annotate(err, "read", "")
}
