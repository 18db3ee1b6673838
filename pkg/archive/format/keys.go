package format

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

const (
	masterSize     = 32
	tagSize        = 16
	nonceSize      = 12
	maxGenerations = 1024
)

// Keyring has a repository's master keys, one for each key generation. What is written has the newest one's.
type Keyring struct {
	id      RepositoryID
	masters [][]byte // by generation
}

// NewKeyring makes the first key of a new repository, and so the repository's id.
func NewKeyring() (*Keyring, error) {
	master := make([]byte, masterSize)
	random(master)
	return newKeyring([][]byte{master})
}

func newKeyring(masters [][]byte) (*Keyring, error) {
	k := &Keyring{masters: masters}
	id, err := expand(masters[0], nil, "repository id", nil, len(k.id))
	copy(k.id[:], id)
	return k, err
}

// Rotated returns a keyring with one generation more. What older ones wrote stays readable; it has no slots yet.
func (k *Keyring) Rotated() (*Keyring, error) {
	if len(k.masters) == maxGenerations {
		return nil, failure.New(failure.Usage, "rotate key", k.id.String(), "it has %d generations already",
			maxGenerations)
	}
	master := make([]byte, masterSize)
	random(master)
	return newKeyring(append(slices.Clone(k.masters), master))
}

// Repository is the id of the repository that the keys are for.
func (k *Keyring) Repository() RepositoryID { return k.id }

// Generation is that of what is written now.
func (k *Keyring) Generation() uint32 { return saturate.To[uint32](len(k.masters) - 1) }

// String shows no key.
func (k *Keyring) String() string { return "keyring of " + k.id.String() }

// GoString shows no key.
func (k *Keyring) GoString() string { return k.String() }

// derive returns the 256-bit key of a generation for one purpose.
func (k *Keyring) derive(generation uint32, label string, context ...[]byte) ([]byte, error) {
	if generation > k.Generation() {
		return nil, failure.New(failure.Corrupt, "derive key", label, "key generation %d is unknown", generation)
	}
	return expand(k.masters[generation], k.id[:], label, slices.Concat(context...), sha256.Size)
}

func expand(master, salt []byte, label string, context []byte, size int) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, master, salt, "tisnap archive 1\x00"+label+"\x00"+string(context), size)
	return key, failure.Wrap(err, failure.Unknown, "derive key", label)
}

func (k *Keyring) aead(generation uint32, label string, context ...[]byte) (cipher.AEAD, error) {
	key, err := k.derive(generation, label, context...)
	if err != nil {
		return nil, err
	}
	return newAEAD(key)
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "start AES", "")
	}
	gcm, err := cipher.NewGCM(block)
	return gcm, failure.Wrap(err, failure.Unknown, "start AES-GCM", "")
}

// nonce is the offset of a ciphertext in its object, in 96 bits. A key is of one object, so no nonce comes twice. An
// offset is never negative.
func nonce(offset int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, nonceSize-8, nonceSize), uint64(offset)) //nolint:gosec // above
}

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}
