package bench_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/bench"
	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// image has so many blocks: of each four one is zeros, one is random, and two are text.
func image(blocks int) *volume.Image {
	var data bytes.Buffer
	random := rand.NewChaCha8([32]byte{1})
	for n := range blocks {
		block := make([]byte, volume.BlockSize)
		switch n % 4 {
		case 1:
			_, _ = random.Read(block)
		case 2, 3:
			copy(block, strings.Repeat("a line of a log that repeats itself\n", volume.BlockSize/36+1))
		}
		data.Write(block)
	}
	return &volume.Image{Bytes: int64(data.Len()), From: bytes.NewReader(data.Bytes())}
}

// A sample is spread evenly, leaves zeros out, and stands for the whole volume.
func TestTake(t *testing.T) {
	t.Parallel()
	src := image(256)
	s, err := bench.Take(t.Context(), src, 32*volume.BlockSize)
	require.NoError(t, err)
	assert.Equal(t, 24, len(s.Blocks))
	assert.Equal(t, src.Size()*3/4, s.Data())

	all, err := bench.Take(t.Context(), src, 1<<40)
	require.NoError(t, err)
	assert.Equal(t, 192, len(all.Blocks), "a small volume is read whole")

	short := &volume.Image{Bytes: 4*volume.BlockSize + 5, From: src.From}
	s, err = bench.Take(t.Context(), short, 1<<40)
	require.NoError(t, err)
	assert.Equal(t, 3, len(s.Blocks), "the last block is short, and zeros")

	s, err = bench.Take(t.Context(), &volume.Image{From: src.From}, 1<<20)
	require.NoError(t, err)
	assert.Zero(t, len(s.Blocks))
	assert.Zero(t, s.Data())

	_, err = bench.Take(t.Context(), &volume.Image{Bytes: 1 << 30, From: src.From}, 1<<30)
	assert.Error(t, err, "the file is shorter than it was")
}

// What a level makes of a sample is what an archive would store; every level but none shrinks text.
func TestMeasure(t *testing.T) {
	t.Parallel()
	s, err := bench.Take(t.Context(), image(64), 1<<40)
	require.NoError(t, err)
	got, err := bench.Measure(t.Context(), s, codec.Levels())
	require.NoError(t, err)
	require.Len(t, got, len(codec.Levels()))
	stored := map[codec.Level]int64{}
	for n, r := range got {
		assert.Equal(t, codec.Levels()[n], r.Level)
		assert.EqualValues(t, 48*volume.BlockSize, r.Raw)
		assert.Positive(t, r.Rate())
		stored[r.Level] = r.Stored
	}
	assert.InDelta(t, 48*volume.BlockSize, stored[codec.None], 48*200, "blocks as they are, with their tags and records")
	random := int64(16 * volume.BlockSize)
	for _, level := range codec.Levels()[1:] {
		assert.Greater(t, stored[level], random, level)
		assert.Less(t, stored[level], random+random/4, level)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("ended"))
	_, err = bench.Measure(ctx, s, codec.Levels())
	assert.ErrorIs(t, err, context.Canceled)
}
