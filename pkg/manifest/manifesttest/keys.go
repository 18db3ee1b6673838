// Package manifesttest has keys that sign manifests, for tests.
package manifesttest

import (
	_ "embed"

	"aead.dev/minisign"

	"github.com/tisnap/tisnap/pkg/manifest"
)

// The key files that minisign 0.11 made for these tests alone. EncryptedKey has the password "secret words" and the
// smallest cost of scrypt.
var (
	//go:embed minisign.key
	Key []byte
	//go:embed minisign.encrypted.key
	EncryptedKey []byte
	//go:embed minisign.pub
	PublicKey []byte
)

// Test is what is needed of testing.TB.
type Test interface {
	Helper()
	Fatal(args ...any)
}

// SigningKey is the key of Key.
func SigningKey(t Test) *manifest.SigningKey {
	t.Helper()
	return parse(t, Key)
}

// OtherKey is a new key that no verifier knows.
func OtherKey(t Test) *manifest.SigningKey {
	t.Helper()
	_, secret, err := minisign.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := secret.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t Test, text []byte) *manifest.SigningKey {
	t.Helper()
	key, err := manifest.ParseSigningKey(text, "")
	if err != nil {
		t.Fatal(err)
	}
	return key
}
