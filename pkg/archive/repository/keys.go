package repository

import (
	"context"
	"slices"
	"strings"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// keyTries is how often a change of the keys is begun again because another one came first.
const keyTries = 10

// Keys are what unlocks a repository: its newest key, and the slots that have it.
type Keys struct {
	*format.Keyring
	Slots []format.Slot
}

// ChangeKeys unlocks the repository by any of the identities, and replaces its keys by what change makes of them, as a
// whole: who changes them at the same time loses nothing. change may be called several times.
func ChangeKeys(
	ctx context.Context, store objstore.Store, identities []age.Identity, change func(*Keys) error,
) (*Keys, error) {
	const op = "change keys"
	for try := 1; ; try++ {
		text, version, err := store.Get(ctx, format.RepositoryPath)
		if err != nil {
			return nil, failure.Annotate(err, op, store.URL())
		}
		r, err := format.DecodeRepository(text)
		if err != nil {
			return nil, failure.Annotate(err, op, store.URL())
		}
		keyring, err := r.Unlock(ctx, identities...)
		if err != nil {
			return nil, failure.Annotate(err, op, store.URL())
		}
		keys := &Keys{keyring, slices.Clone(r.Slots)}
		if err := change(keys); err != nil {
			return nil, failure.Annotate(err, op, store.URL())
		}
		next, err := format.EncodeRepository(keys.Keyring, keys.Slots, r.Settings)
		if err != nil {
			return nil, err
		}
		_, err = keeping(store, r.Settings).Replace(ctx, format.RepositoryPath, next, version)
		if err == nil {
			return keys, nil
		}
		if try == keyTries || !failure.Is(err, failure.Conflict) {
			return nil, failure.Annotate(err, op, store.URL())
		}
	}
}

// ReadKeys reads what unlocks a repository, whose id must be known to be right.
func (r *Repository) ReadKeys(ctx context.Context) (*format.Repository, error) {
	text, _, err := r.store.Get(ctx, format.RepositoryPath)
	if err != nil {
		return nil, failure.Annotate(err, "read keys", r.store.URL())
	}
	return format.DecodeRepository(text)
}

// Add adds a slot. Its name, and its recipient, must be new.
func (k *Keys) Add(s format.Slot) error {
	for _, o := range k.Slots {
		if o.Name == s.Name || s.Key != "" && o.Key == s.Key {
			return failure.New(failure.Conflict, "add key", s.Name, "slot %s is there already", o.Name)
		}
	}
	k.Slots = append(k.Slots, s)
	return nil
}

// Remove removes the slot of this name or recipient. The last one stays, as does all that a removed key could read: who
// has seen it can still read what was written until the next rotation.
func (k *Keys) Remove(name string) error {
	at := slices.IndexFunc(k.Slots, func(s format.Slot) bool { return s.Name == name || s.Key != "" && s.Key == name })
	switch {
	case at < 0:
		return failure.New(failure.NotFound, "remove key", name, "there is no slot of this name").
			WithHint("see `tisnap archive key list`")
	case len(k.Slots) == 1:
		return failure.New(failure.Usage, "remove key", name, "it is the only one: all archives would be lost").
			WithHint("add another one first")
	}
	k.Slots = slices.Delete(k.Slots, at, at+1)
	return nil
}

// Rotate makes a new key, which encrypts what is written from now on, for all slots. passphrase is that of a slot that
// has one; a slot whose secret is not at hand is a Usage error. by encrypts for slots of AWS KMS.
func (k *Keys) Rotate(ctx context.Context, passphrase string, by format.KMS) error {
	next, err := k.Rotated()
	if err != nil {
		return err
	}
	slots := make([]format.Slot, len(k.Slots))
	for i, s := range k.Slots {
		switch {
		case s.Type == format.SlotAge:
			to, err := age.ParseRecipients(strings.NewReader(s.Key))
			if err != nil || len(to) != 1 {
				return failure.New(failure.Corrupt, "rotate key", s.Name, "its slot has no age recipient")
			}
			if slots[i], err = next.AgeSlot(s.Name, s.Key, to[0]); err != nil {
				return err
			}
		case s.Type == format.SlotKMS:
			if slots[i], err = next.KMSSlot(ctx, s.Name, s.Key, by); err != nil {
				return err
			}
		case s.Type == format.SlotPassphrase && passphrase != "" && k.opens(s, passphrase):
			if slots[i], err = next.PassphraseSlot(s.Name, passphrase); err != nil {
				return err
			}
		default:
			return failure.New(failure.Usage, "rotate key", s.Name, "the slot needs the secret of its %s", s.Type).
				WithHint("give its --repo-passphrase-file, or remove the slot first, and add it again afterwards")
		}
	}
	k.Keyring, k.Slots = next, slots
	return nil
}

// opens reports whether a passphrase is that of a slot.
func (k *Keys) opens(s format.Slot, passphrase string) bool {
	id, err := format.Passphrase(passphrase)
	return err == nil && s.Opens(id)
}
