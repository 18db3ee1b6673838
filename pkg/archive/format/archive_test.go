package format

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/failure"
)

func exampleArchive() *Archive {
	return &Archive{
		Backup: "nightly", BackupTS: 461234567890123456, Cluster: "prod/tidb", Base: "a-0",
		Created:  time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		Manifest: NewManifest([]byte(`{"backup":"nightly"}`)),
		Stores: []Store{{ID: 1 << 60, Volumes: []Volume{{
			Role: "data", Source: "snap-1", Size: SegmentBlocks*codec.MaxBlock + 1, Segments: []SegmentName{{1}, {2}},
			Counts: Counts{Saved: 5, Zero: 2, Free: 1}, Checksum: Digest{3},
		}}}},
	}
}

func TestArchive_RoundTrip(t *testing.T) {
	t.Parallel()
	keys, want := newKeys(t), exampleArchive()
	object, err := want.Seal(keys, "a-1")
	require.NoError(t, err)
	got, err := OpenArchive(keys, "a-1", object)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	again, err := want.Seal(keys, "a-1")
	require.NoError(t, err)
	assert.NotEqual(t, object[:sealedStart], again[:sealedStart], "each has a key of its own")
}

// TestArchive_WithoutAnything_HasNoNull: a list is a list, or left out.
func TestArchive_WithoutAnything_HasNoNull(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(&Archive{Stores: []Store{{Volumes: []Volume{{}}}, {}}})
	require.NoError(t, err)
	assert.NotContains(t, string(text), "null")
	text, err = json.Marshal(&Archive{})
	require.NoError(t, err)
	assert.NotContains(t, string(text), "null")
}

func TestOpenArchive_ChangedRenamedOrForeign_Refused(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	object, err := exampleArchive().Seal(keys, "a-1")
	require.NoError(t, err)
	for i := range object {
		bad := bytes.Clone(object)
		bad[i] ^= 2
		_, err := OpenArchive(keys, "a-1", bad)
		require.ErrorContains(t, err, "open archive of a-1", "byte %d", i)
	}
	_, err = OpenArchive(keys, "a-2", object)
	require.ErrorContains(t, err, "not what was written under this name")
	assert.Equal(t, failure.Corrupt, failure.KindOf(err))
	_, err = OpenArchive(newKeys(t), "a-1", object)
	require.ErrorContains(t, err, "belongs to repository")
	_, err = OpenArchive(keys, "a-1", object[:50])
	require.Error(t, err)
	for _, id := range []string{"", "../a", ".a", "a/b"} {
		_, err = OpenArchive(keys, id, object)
		require.ErrorContains(t, err, "name archive", id)
	}
}

func TestSeal_ArchiveThatContradictsItself_Refused(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*Archive){
		"digest":     func(a *Archive) { a.Manifest.Data = nil },
		"2 segments": func(a *Archive) { a.Stores[0].Volumes[0].Size-- },
		"3 proofs":   func(a *Archive) { a.Stores[0].Volumes[0].Proofs = make([]Digest, 3) },
		"segments":   func(a *Archive) { a.Stores[0].Volumes[0].Size = -1 },
		"blocks":     func(a *Archive) { a.Stores[0].Volumes[0].Counts.Zero = SegmentBlocks },
		"not {":      func(a *Archive) { a.Stores[0].Volumes[0].Counts.Free = -1 },
	} {
		a := exampleArchive()
		change(a)
		_, err := a.Seal(newKeys(t), "a-1")
		require.ErrorContains(t, err, what)
	}
}

func TestPaths(t *testing.T) {
	t.Parallel()
	p := PackName{0xab, 1}
	assert.Equal(t, "packs/ab/ab010000000000000000000000000000", p.Path())
	got, err := ParsePackPath(p.Path())
	require.NoError(t, err)
	assert.Equal(t, p, got)
	for _, bad := range []string{"", "packs/ab/ab", "packs/aa/" + p.String(), "packs/AB/AB" + p.String()[2:], p.String()} {
		_, err := ParsePackPath(bad)
		require.Error(t, err, bad)
		assert.Equal(t, failure.Corrupt, failure.KindOf(err))
	}
}

func FuzzDecodeArchive(f *testing.F) {
	f.Add([]byte(`{"backup":"a","manifest":{"sha256":"` + NewManifest(nil).SHA256.String() + `"},"stores":[{"id":"1","volumes":[{"size":"-1"}]}]}`))
	f.Add([]byte(`{"stores":[{"volumes":[{"size":"9223372036854775807","counts":{"saved":9223372036854775807}}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if a, err := decodeArchive(text); err == nil {
			assert.NoError(t, a.check())
		}
	})
}
