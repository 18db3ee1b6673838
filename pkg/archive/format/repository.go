package format

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/failure"
)

const (
	formatName    = "tisnap-archive"
	maxRepository = 1 << 20
	// What stands between the authenticated bytes of repo.json and their MAC, and after it.
	macField = ",\n  \"mac\": \""
	macEnd   = "\"\n}\n"
)

// Repository is repo.json: what is read first. Its slots and id are readable without a key.
type Repository struct {
	Format     string       `json:"format"`
	Version    int          `json:"version"`
	ID         RepositoryID `json:"id"`
	Generation uint32       `json:"generation"`         // of the key in the slots
	Slots      []Slot       `json:"slots"`              // each has the same key
	Older      []byte       `json:"older,omitempty"`    // the keys of older generations, under the newest one
	Requires   []string     `json:"requires,omitempty"` // features without which it cannot be used
	Settings   Settings     `json:"settings"`

	signed []byte // the authenticated bytes
	mac    []byte
}

// Settings are what init chose and found.
type Settings struct {
	PackSize  int64     `json:"packSize"` // a pack is closed once it has so many bytes
	Storage   Storage   `json:"storage"`
	Retention Retention `json:"retention,omitzero"`
}

// Retention is how S3's Object Lock keeps packs, segments, archives and repo.json: each from its write on for so long,
// and by prunes for longer while an archive refers to it. The zero value is no retention.
type Retention struct {
	Mode string `json:"mode"` // GOVERNANCE or COMPLIANCE
	Days int    `json:"days"`
}

// Period is how long.
func (r Retention) Period() time.Duration { return time.Duration(r.Days) * 24 * time.Hour }

// Storage is what a probe found the storage to be able to.
type Storage struct {
	ConditionalCreate  bool `json:"conditionalCreate"`  // If-None-Match
	ConditionalReplace bool `json:"conditionalReplace"` // If-Match
	ObjectLock         bool `json:"objectLock"`
}

// ManyWriters reports whether the storage honours the conditional writes that several writers and prunes need.
func (s Storage) ManyWriters() bool { return s.ConditionalCreate && s.ConditionalReplace }

// EncodeRepository returns repo.json for the keys, whose newest one the slots have.
func EncodeRepository(keys *Keyring, slots []Slot, settings Settings) ([]byte, error) {
	r := Repository{
		Format: formatName, Version: Version, ID: keys.id, Generation: keys.Generation(), Slots: slots,
		Settings: settings,
	}
	if len(slots) == 0 || len(slots) > maxSlots {
		return nil, failure.New(failure.Usage, "encode", RepositoryPath, "%d key slots are not 1 to %d", len(slots),
			maxSlots)
	}
	if r.Generation > 0 {
		salt := make([]byte, masterSize)
		random(salt)
		aead, err := keys.aead(r.Generation, "older keys", salt)
		if err != nil {
			return nil, err
		}
		r.Older = aead.Seal(salt, nonce(masterSize), slices.Concat(keys.masters[:r.Generation]...), nil)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "encode", RepositoryPath)
	}
	signed := bytes.TrimSuffix(text, []byte("\n}"))
	key, err := keys.derive(r.Generation, "repository mac")
	if err != nil {
		return nil, err
	}
	return append(signed, macField+hex.EncodeToString(mac(key, signed))+macEnd...), nil
}

// DecodeRepository reads repo.json. Nothing in it is to be believed before Unlock.
func DecodeRepository(data []byte) (*Repository, error) {
	if len(data) > maxRepository {
		return nil, failure.New(failure.Corrupt, "read", RepositoryPath, "it has %d bytes", len(data))
	}
	r := &Repository{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, failure.Wrap(err, failure.Corrupt, "read", RepositoryPath)
	}
	if r.Format != formatName {
		return nil, failure.New(failure.Corrupt, "read", RepositoryPath, "it is no archive repository's")
	}
	if r.Version != Version || len(r.Requires) > 0 {
		return nil, failure.New(failure.Usage, "read", RepositoryPath, "format version %d with features %q is unknown",
			r.Version, r.Requires).WithHint("Use a newer tisnap.")
	}
	at := len(data) - len(macField) - hex.EncodedLen(masterSize) - len(macEnd)
	if at < 0 || !bytes.HasPrefix(data[at:], []byte(macField)) || !bytes.HasSuffix(data, []byte(macEnd)) {
		return nil, failure.New(failure.Corrupt, "read", RepositoryPath, "it does not end with its MAC")
	}
	sum, err := hex.DecodeString(string(data[at+len(macField) : len(data)-len(macEnd)]))
	if err != nil || len(r.Slots) > maxSlots {
		return nil, failure.New(failure.Corrupt, "read", RepositoryPath, "it has no MAC, or %d slots", len(r.Slots))
	}
	r.signed, r.mac = data[:at], sum
	return r, nil
}

// Unlock returns the repository's keys, and so proves that all of repo.json was written by one who had them. AWS KMS is
// asked only if none of the other identities opens a slot.
func (r *Repository) Unlock(ctx context.Context, identities ...age.Identity) (*Keyring, error) {
	var failed error
	slots := slices.Clone(r.Slots)
	slices.SortStableFunc(slots, func(a, b Slot) int { return cmp.Compare(askedLast(a), askedLast(b)) })
	for _, slot := range slots {
		master, err := slot.open(ctx, r.ID, identities)
		if master != nil && err == nil {
			var keys *Keyring
			if keys, err = r.keyring(master); err == nil {
				return keys, nil
			}
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		return nil, failure.Annotate(failed, "unlock repository", r.ID.String())
	}
	if !slices.ContainsFunc(identities, func(id age.Identity) bool { _, kms := id.(kmsIdentity); return !kms }) {
		return nil, failure.New(failure.Usage, "unlock repository", r.ID.String(),
			"no key is given, and no slot is of AWS KMS").
			WithHint("set --repo-identity FILE or --repo-passphrase-file FILE")
	}
	return nil, failure.New(failure.Denied, "unlock repository", r.ID.String(),
		"none of its %d key slots is for this key", len(r.Slots)).
		WithHint("Give the identity or passphrase of one of the repository's key slots.")
}

// askedLast is 1 for a slot whose opening takes a call.
func askedLast(s Slot) int {
	if s.Type == SlotKMS {
		return 1
	}
	return 0
}

func (r *Repository) keyring(newest []byte) (*Keyring, error) {
	k := &Keyring{id: r.ID, masters: make([][]byte, 0, 1)}
	if r.Generation > 0 {
		if r.Generation >= maxGenerations || len(r.Older) != masterSize*(1+int(r.Generation))+tagSize {
			return nil, failure.New(failure.Corrupt, "", "", "it has no key for each of %d generations", r.Generation)
		}
		key, err := expand(newest, r.ID[:], "older keys", r.Older[:masterSize], masterSize)
		if err != nil {
			return nil, err
		}
		aead, err := newAEAD(key)
		if err != nil {
			return nil, err
		}
		older, err := aead.Open(nil, nonce(masterSize), r.Older[masterSize:], nil)
		if err != nil {
			return nil, failure.New(failure.Corrupt, "", "", "the keys of older generations are not what was written")
		}
		k.masters = slices.Collect(slices.Chunk(older, masterSize))
	}
	k, err := newKeyring(append(k.masters, newest))
	if err != nil {
		return nil, err
	}
	if k.id != r.ID {
		return nil, failure.New(failure.Corrupt, "", "", "its key is that of repository %s", k.id)
	}
	key, err := k.derive(r.Generation, "repository mac")
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(mac(key, r.signed), r.mac) {
		return nil, failure.New(failure.Corrupt, "", "", "%s was changed by one who has no key", RepositoryPath)
	}
	return k, nil
}
