package format

import (
	"crypto/sha256"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/codec"
)

// BenchmarkAdd is what a block costs besides reading, hashing and compressing it.
func BenchmarkAdd(b *testing.B) {
	w, err := NewPackWriter(io.Discard, newKeys(b), Source{}, NewPackName())
	require.NoError(b, err)
	raw := block(1)
	digest := sha256.Sum256(raw)
	b.SetBytes(codec.MaxBlock)
	for b.Loop() {
		if w.Full() {
			w, err = NewPackWriter(io.Discard, newKeys(b), Source{}, NewPackName())
			require.NoError(b, err)
		}
		_, err := w.Add(Origin{}, digest, len(raw), codec.Stored, raw)
		require.NoError(b, err)
	}
}

// BenchmarkSegment is what 32 GiB of a volume cost in its map.
func BenchmarkSegment(b *testing.B) {
	keys, s := newKeys(b), randomSegment(1, SegmentBlocks)
	name, object, err := s.Seal(keys)
	require.NoError(b, err)
	b.Run("seal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _, err := s.Seal(keys)
			require.NoError(b, err)
		}
	})
	b.Run("open", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, err := OpenSegment(keys, name, object)
			require.NoError(b, err)
		}
	})
}
