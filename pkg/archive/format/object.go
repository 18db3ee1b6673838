package format

import (
	"bytes"

	"github.com/klauspost/compress/zstd"

	"github.com/tisnap/tisnap/pkg/failure"
)

// sealObject encrypts a segment or an archive under a key that is derived from the label, the context and own, which is
// in its header: the three are never the same for two texts.
func (k *Keyring) sealObject(kind byte, path, label string, context, own, packed []byte) ([]byte, error) {
	aead, err := k.aead(k.Generation(), label, context, own)
	if err != nil {
		return nil, err
	}
	header := k.header(kind, own)
	return aead.Seal(header, nonce(sealedStart), packed, append(bytes.Clone(header), path...)), nil
}

// openObject decrypts what sealObject made.
func openObject(keys *Keyring, kind byte, object []byte, path, label string, context []byte) ([]byte, uint32, error) {
	generation, err := keys.checkHeader(kind, object)
	if err != nil {
		return nil, 0, err
	}
	if len(object) < sealedStart+tagSize {
		return nil, 0, failure.New(failure.Corrupt, "", "", "%d bytes are too few", len(object))
	}
	header := object[:sealedStart:sealedStart]
	aead, err := keys.aead(generation, label, context, header[prefixSize:])
	if err != nil {
		return nil, 0, err
	}
	packed, err := aead.Open(nil, nonce(sealedStart), object[sealedStart:], append(header, path...))
	if err != nil {
		return nil, 0, failure.New(failure.Corrupt, "", "", "it is not what was written under this name")
	}
	return packed, generation, nil
}

func inZstd(plain []byte) ([]byte, error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
		zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "start compression", "")
	}
	return e.EncodeAll(plain, nil), nil
}

// unzstd decompresses what has at most size bytes.
func unzstd(packed []byte, size uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(size),
		zstd.WithDecoderMaxWindow(size))
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "start decompression", "")
	}
	defer d.Close()
	plain, err := d.DecodeAll(packed, nil)
	return plain, failure.Wrap(err, failure.Corrupt, "decompress", "")
}
