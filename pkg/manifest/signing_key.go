package manifest

import (
	"bytes"
	"io"

	"aead.dev/minisign"

	"github.com/tisnap/tisnap/pkg/failure"
)

// SigningKey is a secret key of minisign, with which a run signs its seal. It never shows itself in a log.
type SigningKey struct{ key minisign.PrivateKey }

// VerifyKey is a public key of minisign, by which a seal's signature is checked.
type VerifyKey struct{ key minisign.PublicKey }

// ParseSigningKey reads the text of a secret key, as `minisign -G` writes it, and tries it out. One that is encrypted
// needs its password, and for a second 1 GiB of memory; one that is not (`minisign -G -W`) ignores it. Everything else
// is Usage, with a message that holds nothing of the key or the password.
func ParseSigningKey(text []byte, password string) (*SigningKey, error) {
	refuse := func(hint, message string) error {
		return failure.New(failure.Usage, "read signing key", "", "%s", message).WithHint("%s", hint)
	}
	text = bytes.TrimSpace(text)
	k := new(SigningKey)
	switch {
	case minisign.IsEncrypted(text) && password == "":
		return nil, refuse("put its password into the environment variable TISNAP_SIGN_PASSWORD",
			"the key is encrypted, and no password is given")
	case minisign.IsEncrypted(text):
		var err error
		if k.key, err = minisign.DecryptKey(password, text); err != nil {
			return nil, refuse("check the password in the environment variable TISNAP_SIGN_PASSWORD",
				"the key cannot be decrypted with this password")
		}
	default:
		if err := k.key.UnmarshalText(text); err != nil {
			return nil, refuse("give the file with the secret key that `minisign -G` wrote",
				"it is no secret key of minisign")
		}
	}
	probe := []byte("tisnap")
	if !minisign.Verify(k.VerifyKey().key, probe, minisign.Sign(k.key, probe)) {
		return nil, refuse("take the key from its backup", "the key is damaged: what it signs does not verify")
	}
	return k, nil
}

// ID is the key's id as minisign shows it: 16 hexadecimal digits; "" for no key.
func (k *SigningKey) ID() string {
	if k == nil {
		return ""
	}
	return keyID(k.key.ID())
}

// VerifyKey is the public half; nil for no key.
func (k *SigningKey) VerifyKey() *VerifyKey {
	if k == nil {
		return nil
	}
	public, ok := k.key.Public().(minisign.PublicKey)
	if !ok {
		return nil
	}
	return &VerifyKey{key: public}
}

func (k *SigningKey) sign(doc []byte, trusted, untrusted string) string {
	r := minisign.NewReader(bytes.NewReader(doc))
	_, _ = io.Copy(io.Discard, r) // from memory
	return string(r.SignWithComments(k.key, trusted, untrusted))
}

// ParseVerifyKey reads a public key of minisign: the text of its file, or the line with the key alone. Anything else is
// Usage.
func ParseVerifyKey(text []byte) (*VerifyKey, error) {
	k := new(VerifyKey)
	if err := k.key.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		return nil, failure.New(failure.Usage, "read public key", "", "it is no public key of minisign: %w", err).
			WithHint("give the file minisign.pub that `minisign -G` wrote, or the second line of it")
	}
	return k, nil
}

// ID is the key's id as minisign shows it: 16 hexadecimal digits.
func (k *VerifyKey) ID() string { return keyID(k.key.ID()) }
