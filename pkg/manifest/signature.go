package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"aead.dev/minisign"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Sign returns the seal with a signature in it, over the manifest's exact bytes. The signature's trusted comment, which
// it covers too, holds the digest of the whole seal. It thereby covers whatever the manifest has digests of, such as
// the marks. A user can check it with minisign, whose format it has. A seal that is not of doc is Corrupt.
func Sign(doc, seal []byte, key *SigningKey) ([]byte, error) {
	if _, err := Open(doc, seal); err != nil {
		return nil, failure.Annotate(err, "sign seal", "")
	}
	s, err := DecodeSeal(seal)
	if err != nil {
		return nil, failure.Annotate(err, "sign seal", "")
	}
	comment, err := sealComment(seal)
	if err != nil {
		return nil, failure.Annotate(err, "sign seal", string(s.ID))
	}
	s.Signature = key.sign(doc, comment, fmt.Sprintf("seal of backup %s, by key %s", s.ID, key.ID()))
	return encodeDocument(s, "sign seal", string(s.ID))
}

// Verify returns Corrupt unless the seal has a signature by key over these bytes of the manifest and the whole seal.
// Each kind of failure has its own message and hint. It does not repeat Open's checks.
func Verify(doc, seal []byte, key *VerifyKey) error {
	s, err := DecodeSeal(seal)
	if err != nil {
		return failure.Annotate(err, "verify seal", "")
	}
	refuse := func(hint, format string, args ...any) error {
		return failure.New(failure.Corrupt, "verify seal", string(s.ID), format, args...).WithHint("%s", hint)
	}
	if s.Signature == "" {
		return refuse(hintUnsigned, "it is not signed, and a signature by key %s is demanded", key.ID())
	}
	var signature minisign.Signature
	if err := signature.UnmarshalText([]byte(s.Signature)); err != nil {
		return refuse(hintForged, "its signature cannot be read: %w", err)
	}
	if by := keyID(signature.KeyID); by != key.ID() {
		return refuse(hintOtherKey, "it is signed with key %s, and a signature by key %s is demanded", by, key.ID())
	}
	if !minisign.Verify(key.key, doc, []byte(s.Signature)) {
		return refuse(hintForged, "its signature with key %s is not of this manifest", key.ID())
	}
	comment, err := sealComment(seal)
	if err != nil {
		return failure.Annotate(err, "verify seal", string(s.ID))
	}
	if signature.TrustedComment != comment {
		return refuse(hintForged, "its signature with key %s does not match the seal: the seal was changed",
			key.ID())
	}
	return nil
}

// What to do about a backup that the key does not vouch for. Retrying never helps.
const (
	hintUnsigned = "it was made without --sign-key, or someone else sealed it again: restore another backup, or, if " +
		"you know that it was never signed, leave --verify-key out"
	hintOtherKey = "if that key is yours as well, give its public key by --verify-key; else someone else sealed the " +
		"backup: restore another one"
	hintForged = "the backup's objects were changed after they were signed: restore another backup, and find out " +
		"who may write to the storage"
)

// sealComment is the trusted comment of a seal's signature: a digest of all fields but the signature, those of a newer
// tisnap as well.
func sealComment(seal []byte) (string, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(seal, &fields); err != nil {
		return "", failure.Wrap(err, failure.Corrupt, "read seal", "")
	}
	delete(fields, "signature")
	canonical, err := json.Marshal(fields) // in the order of the names, without spaces
	if err != nil {
		return "", failure.Wrap(err, failure.Corrupt, "read seal", "")
	}
	sum := sha256.Sum256(canonical)
	return "tisnap.io/seal sha256:" + hex.EncodeToString(sum[:]), nil
}

// keyID is how minisign shows a key's id.
func keyID(id uint64) string { return strings.ToUpper(fmt.Sprintf("%016x", id)) }
