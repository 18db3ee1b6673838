package manifest_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

var sealedAt = created.Add(time.Hour)

func sealed(t testing.TB) (doc, seal []byte) {
	t.Helper()
	doc = encoded(t, sample())
	seal, err := manifest.Seal(doc, sealedAt, 1<<30)
	require.NoError(t, err)
	return doc, seal
}

func TestSeal_Sample_IsStable(t *testing.T) {
	t.Parallel()
	_, seal := sealed(t)
	golden(t, "seal.v1.json", seal)
	s, err := manifest.DecodeSeal(seal)
	require.NoError(t, err)
	require.Equal(t, 6, s.Snapshots)
	require.Equal(t, 3, s.Stores)
}

func TestOpen_Sealed_GivesTheManifest(t *testing.T) {
	t.Parallel()
	m, err := manifest.Open(sealed(t))
	require.NoError(t, err)
	require.Equal(t, sample().BackupTS, m.BackupTS)
	require.Equal(t, sealedAt, m.SealedAt)
}

func TestOpen_NotWhole_IsRefused(t *testing.T) {
	t.Parallel()
	other := sample()
	other.ID = "other"
	for name, test := range map[string]struct {
		change func(doc, seal []byte) ([]byte, []byte)
		kind   failure.Kind
		text   string
	}{
		"no seal":         {func(d, _ []byte) ([]byte, []byte) { return d, nil }, failure.Unready, "is not sealed"},
		"no manifest":     {func(_, s []byte) ([]byte, []byte) { return nil, s }, failure.Corrupt, "0 bytes"},
		"truncated":       {func(d, s []byte) ([]byte, []byte) { return d[:len(d)/2], s }, failure.Corrupt, "sealed were"},
		"truncated seal":  {func(d, s []byte) ([]byte, []byte) { return d, s[:len(s)/2] }, failure.Corrupt, "unexpected end"},
		"flipped byte":    {func(d, s []byte) ([]byte, []byte) { return flip(d), s }, failure.Corrupt, "SHA-256"},
		"seal of another": {func(d, _ []byte) ([]byte, []byte) { return d, sealOf(t, other) }, failure.Corrupt, "sealed w"},
		"newer seal": {func(d, s []byte) ([]byte, []byte) {
			return d, bytes.Replace(s, []byte("tisnap.io/v1"), []byte("tisnap.io/v9"), 1)
		}, failure.Usage, "newer tisnap"},
		"seal without digest": {func(d, _ []byte) ([]byte, []byte) {
			return d, []byte(`{"apiVersion":"tisnap.io/v1","kind":"Seal"}`)
		}, failure.Corrupt, "no SHA-256"},
		"seal that lies about the id": {func(d, s []byte) ([]byte, []byte) {
			return d, bytes.Replace(s, []byte(`"prod-1-2`), []byte(`"prod-2-2`), 1)
		}, failure.Corrupt, "seal is of backup prod-2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Open(test.change(sealed(t)))
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.kind, failure.KindOf(err))
		})
	}
}

func TestSeal_BrokenManifest_IsRefused(t *testing.T) {
	t.Parallel()
	_, err := manifest.Seal([]byte(`{}`), sealedAt, 0)
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	_, err = manifest.Seal(encoded(t, sample()), time.Time{}, 0)
	require.Equal(t, failure.Usage, failure.KindOf(err))
}

func FuzzOpen(f *testing.F) {
	doc, seal := sealed(f)
	f.Add(doc, seal)
	f.Fuzz(func(t *testing.T, doc, seal []byte) {
		m, err := manifest.Open(doc, seal)
		if err == nil {
			require.NoError(t, m.Validate(), "what opens can be restored")
		}
	})
}

func flip(doc []byte) []byte {
	c := bytes.Clone(doc)
	c[len(c)/2] ^= 1
	return c
}

func sealOf(t testing.TB, m *manifest.Manifest) []byte {
	t.Helper()
	seal, err := manifest.Seal(encoded(t, m), sealedAt, 0)
	require.NoError(t, err)
	return seal
}
