package format

import (
	"bytes"
	"context"
	"errors"
	"io"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/failure"
)

// The types of key slots.
const (
	SlotAge        = "age"        // an age file for one recipient
	SlotPassphrase = "passphrase" // an age file for a passphrase
	SlotKMS        = "kms"        // encrypted by AWS KMS
)

const (
	maxSlots = 32
	// workFactor is scrypt's cost: 128 MiB and about half a second. What asks for more than maxWorkFactor is refused.
	workFactor    = 17
	maxWorkFactor = 18
)

// Slot is the newest master key, encrypted for one who may read the repository.
type Slot struct {
	Type string `json:"type"`
	Name string `json:"name"`          // whose it is, for people
	Key  string `json:"key,omitempty"` // age: the recipient; kms: the key's ARN
	Data []byte `json:"data"`          // age: the file, not armored; kms: the ciphertext
}

// AgeSlot returns a slot for an age recipient, such as the public key of an X25519 identity.
func (k *Keyring) AgeSlot(name, recipient string, to age.Recipient) (Slot, error) {
	return k.slot(Slot{Type: SlotAge, Name: name, Key: recipient}, to)
}

// PassphraseSlot returns a slot for a passphrase.
func (k *Keyring) PassphraseSlot(name, passphrase string) (Slot, error) {
	to, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return Slot{}, failure.Wrap(err, failure.Usage, "make key slot", name)
	}
	to.SetWorkFactor(workFactor)
	return k.slot(Slot{Type: SlotPassphrase, Name: name}, to)
}

// KMS encrypts by keys of AWS KMS, given by their ARNs, and decrypts again if key and context are the same.
type KMS interface {
	EncryptByKey(ctx context.Context, key string, plain []byte, about map[string]string) (sealed []byte, err error)
	DecryptByKey(ctx context.Context, key string, sealed []byte, about map[string]string) (plain []byte, err error)
}

// ByKMS returns the identity that opens the slots of AWS KMS, and no age file.
func ByKMS(k KMS) age.Identity { return kmsIdentity{k} }

type kmsIdentity struct{ KMS }

// Unwrap opens nothing.
func (kmsIdentity) Unwrap([]*age.Stanza) ([]byte, error) { return nil, age.ErrIncorrectIdentity }

// KMSContextKey is the one key of the context of what KMS encrypts: policies ask for it.
const KMSContextKey = "tisnap.io/repository"

// kmsContext binds what KMS encrypts to its repository.
func kmsContext(id RepositoryID) map[string]string {
	return map[string]string{KMSContextKey: id.String()}
}

// KMSSlot returns a slot for a key of AWS KMS, given by its ARN.
func (k *Keyring) KMSSlot(ctx context.Context, name, key string, by KMS) (Slot, error) {
	data, err := by.EncryptByKey(ctx, key, k.masters[k.Generation()], kmsContext(k.id))
	return Slot{Type: SlotKMS, Name: name, Key: key, Data: data}, failure.Annotate(err, "make key slot", name)
}

func (k *Keyring) slot(s Slot, to age.Recipient) (Slot, error) {
	var file bytes.Buffer
	w, err := age.Encrypt(&file, to)
	if err == nil {
		_, err = w.Write(k.masters[k.Generation()])
	}
	if err == nil {
		err = w.Close()
	}
	s.Data = file.Bytes()
	return s, failure.Wrap(err, failure.Usage, "make key slot", s.Name)
}

// Passphrase returns the identity that opens a passphrase's slots.
func Passphrase(text string) (age.Identity, error) {
	id, err := age.NewScryptIdentity(text)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "read passphrase", "")
	}
	id.SetMaxWorkFactor(maxWorkFactor)
	return id, nil
}

// Opens reports whether an identity opens the slot.
func (s Slot) Opens(id age.Identity) bool {
	master, err := s.openAge([]age.Identity{id})
	return err == nil && master != nil
}

// open returns the master key in the slot of a repository, or nil if it is for none of the identities.
func (s Slot) open(ctx context.Context, of RepositoryID, identities []age.Identity) ([]byte, error) {
	switch s.Type {
	case SlotAge, SlotPassphrase:
		return s.openAge(identities)
	case SlotKMS:
		for _, id := range identities {
			if by, ok := id.(kmsIdentity); ok {
				master, err := by.DecryptByKey(ctx, s.Key, s.Data, kmsContext(of))
				return master, failure.Annotate(err, "open key slot", s.Name)
			}
		}
	}
	return nil, nil
}

// openAge opens a slot that is an age file.
func (s Slot) openAge(identities []age.Identity) ([]byte, error) {
	plain, err := age.Decrypt(bytes.NewReader(s.Data), identities...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "open key slot", s.Name)
	}
	master, err := io.ReadAll(io.LimitReader(plain, masterSize+1))
	if err == nil && len(master) != masterSize {
		err = failure.New(failure.Corrupt, "", "", "it holds no key of %d bytes", masterSize)
	}
	return master, failure.Wrap(err, failure.Corrupt, "open key slot", s.Name)
}
