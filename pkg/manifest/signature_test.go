package manifest_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/manifest/manifesttest"
)

// minisign -V takes this signature over this manifest, with the public key in testdata.
func TestSign_Sample_IsStableAndVerifies(t *testing.T) {
	t.Parallel()
	doc, seal := sealed(t)
	signed, err := manifest.Sign(doc, seal, manifesttest.SigningKey(t))
	require.NoError(t, err)
	golden(t, "seal.signed.v1.json", signed)

	key, err := manifest.ParseVerifyKey(manifesttest.PublicKey)
	require.NoError(t, err)
	require.Equal(t, "DC92731EB1878E64", key.ID(), "as minisign shows it")
	require.NoError(t, manifest.Verify(doc, signed, key))

	m, err := manifest.Open(doc, signed)
	require.NoError(t, err, "without a key a signed backup opens as any other")
	require.Equal(t, sample().BackupTS, m.BackupTS)
}

// Spaces and the order of the fields do not count: an object that went through another tool is the same seal.
func TestVerify_SealWrittenInAnotherLayout_IsTheSame(t *testing.T) {
	t.Parallel()
	doc, seal := sealed(t)
	signed, err := manifest.Sign(doc, seal, manifesttest.SigningKey(t))
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(signed, &fields))
	other, err := json.Marshal(fields)
	require.NoError(t, err)
	require.NotEqual(t, signed, other)
	require.NoError(t, manifest.Verify(doc, other, manifesttest.SigningKey(t).VerifyKey()))
}

func TestVerify_NotVouchedFor_IsRefused(t *testing.T) {
	t.Parallel()
	sign := func(t *testing.T, doc, seal []byte, key *manifest.SigningKey) []byte {
		t.Helper()
		signed, err := manifest.Sign(doc, seal, key)
		require.NoError(t, err)
		return signed
	}
	for name, test := range map[string]struct {
		change     func(t *testing.T, doc, signed []byte) (changedDoc, changedSeal []byte)
		text, hint string
	}{
		"not signed": {func(t *testing.T, doc, _ []byte) ([]byte, []byte) {
			_, seal := sealed(t)
			return doc, seal
		}, "it is not signed", "leave --verify-key out"},
		"another key": {func(t *testing.T, doc, _ []byte) ([]byte, []byte) {
			_, seal := sealed(t)
			return doc, sign(t, doc, seal, manifesttest.OtherKey(t))
		}, "and a signature by key DC92731EB1878E64 is demanded", "someone else sealed"},
		"manifest changed and sealed again with the old signature": {func(t *testing.T, doc, signed []byte) ([]byte, []byte) {
			changed := bytes.Replace(doc, []byte(`"snap-0s"`), []byte(`"snap-9s"`), 1)
			require.NotEqual(t, doc, changed)
			seal, err := manifest.Seal(changed, sealedAt, 1<<30)
			require.NoError(t, err)
			return changed, withSignature(t, seal, signed)
		}, "is not of this manifest", "find out who may write"},
		"seal changed": {func(_ *testing.T, doc, signed []byte) ([]byte, []byte) {
			return doc, bytes.Replace(signed, []byte(`"dataBytes": 1073741824`), []byte(`"dataBytes": 2073741824`), 1)
		}, "the seal was changed", "find out who may write"},
		"a field added to the seal": {func(_ *testing.T, doc, signed []byte) ([]byte, []byte) {
			return doc, bytes.Replace(signed, []byte(`"stores": 3`), []byte(`"stores": 3, "tags": ["keep"]`), 1)
		}, "the seal was changed", "find out who may write"},
		"signature of something else by the key": {func(t *testing.T, doc, signed []byte) ([]byte, []byte) {
			other := bytes.Replace(doc, []byte(`"snap-0s"`), []byte(`"snap-9s"`), 1)
			otherSeal, err := manifest.Seal(other, sealedAt, 1<<30)
			require.NoError(t, err)
			return doc, withSignature(t, signed, sign(t, other, otherSeal, manifesttest.SigningKey(t)))
		}, "is not of this manifest", "find out who may write"},
		"no signature in its place": {func(t *testing.T, doc, signed []byte) ([]byte, []byte) {
			_, seal := sealed(t)
			return doc, bytes.Replace(seal, []byte(`"stores": 3`), []byte(`"stores": 3, "signature": "x"`), 1)
		}, "cannot be read", "find out who may write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, seal := sealed(t)
			signed := sign(t, doc, seal, manifesttest.SigningKey(t))
			changedDoc, changedSeal := test.change(t, doc, signed)
			require.False(t, bytes.Equal(doc, changedDoc) && bytes.Equal(signed, changedSeal), "nothing was changed")
			_, err := manifest.Open(changedDoc, changedSeal)
			require.NoError(t, err, "only the signature can show it")
			err = manifest.Verify(changedDoc, changedSeal, manifesttest.SigningKey(t).VerifyKey())
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, test.text)
			require.Contains(t, failure.HintOf(err), test.hint)
			require.NotContains(t, strings.ToLower(failure.HintOf(err)), "try again", "it does not pass by itself")
		})
	}
}

// withSignature is the seal with the signature of another.
func withSignature(t *testing.T, seal, from []byte) []byte {
	t.Helper()
	s, err := manifest.DecodeSeal(seal)
	require.NoError(t, err)
	signed, err := manifest.DecodeSeal(from)
	require.NoError(t, err)
	s.Signature = signed.Signature
	out, err := json.MarshalIndent(s, "", "  ")
	require.NoError(t, err)
	return out
}

func TestSign_SealOfAnotherManifest_IsRefused(t *testing.T) {
	t.Parallel()
	doc, seal := sealed(t)
	_, err := manifest.Sign(flip(doc), seal, manifesttest.SigningKey(t))
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
}

func TestParseSigningKey_Encrypted_NeedsItsPassword(t *testing.T) {
	t.Parallel()
	text := manifesttest.EncryptedKey
	key, err := manifest.ParseSigningKey(text, "secret words")
	require.NoError(t, err)
	require.Equal(t, manifesttest.SigningKey(t).ID(), key.ID())
	for name, test := range map[string]struct{ password, text string }{
		"none":  {"", "no password is given"},
		"wrong": {"other words", "cannot be decrypted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.ParseSigningKey(text, test.password)
			require.Equal(t, failure.Usage, failure.KindOf(err))
			require.ErrorContains(t, err, test.text)
			require.Contains(t, failure.HintOf(err), "TISNAP_SIGN_PASSWORD")
			require.NotContains(t, err.Error()+failure.HintOf(err), "words")
		})
	}
}

func TestParseKeys_Unreadable_IsUsage(t *testing.T) {
	t.Parallel()
	secret := manifesttest.Key
	damaged := bytes.Replace(secret, []byte("ktwe"), []byte("ktwf"), 1)
	require.NotEqual(t, secret, damaged)
	for name, text := range map[string][]byte{"empty": nil, "public key": manifesttest.PublicKey, "text": []byte("my key"), "damaged": damaged} {
		t.Run("signing "+name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.ParseSigningKey(text, "")
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.NotEmpty(t, failure.HintOf(err))
		})
	}
	for name, text := range map[string][]byte{"empty": nil, "secret key": secret, "text": []byte("my key")} {
		t.Run("public "+name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.ParseVerifyKey(text)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.Contains(t, failure.HintOf(err), "minisign.pub")
		})
	}
	_, line, _ := strings.Cut(string(manifesttest.PublicKey), "\n")
	key, err := manifest.ParseVerifyKey([]byte(line))
	require.NoError(t, err, "the line alone is a key")
	require.Equal(t, manifesttest.SigningKey(t).ID(), key.ID())
}
