package verify_test

import (
	"bytes"
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// without is an image that does not list some blocks.
type without struct {
	*volume.Image
	blocks []int64
}

func (w without) Blocks(ctx context.Context, from, to int64) iter.Seq2[volume.Block, error] {
	return func(yield func(volume.Block, error) bool) {
		for b, err := range w.Image.Blocks(ctx, from, to) {
			if !slices.Contains(w.blocks, b.Index()) && !yield(b, err) {
				return
			}
		}
	}
}

// against compares archive one with a source of its first volume; the second one is gone.
func (l *lab) against(t *testing.T, sample float64, source func(data []byte) volume.Source) (*verify.Result, error) {
	t.Helper()
	v, _ := l.volume(t)
	var data bytes.Buffer
	require.NoError(t, volume.Stream(t.Context(), l.Repository, v, &data, 2))
	return verify.Run(t.Context(), l.Repository, verify.Options{
		Archives: []string{"one"}, Level: verify.Objects, Sample: sample, Reads: 2,
		Against: func(_ context.Context, _ *format.Archive, of format.Volume) (volume.Source, error) {
			if of.Checksum != v.Checksum {
				return nil, failure.New(failure.NotFound, "", "", "it is gone")
			}
			return source(data.Bytes()), nil
		},
	})
}

func image(data []byte) *volume.Image {
	return &volume.Image{Bytes: int64(len(data)), From: bytes.NewReader(data)}
}

// Each block that is not what was archived is named, also one that is not listed any more, and is not read.
func TestRun_Against_EachDifferenceIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	for name, row := range map[string]struct {
		source func(data []byte) volume.Source
		sample float64
		want   []verify.Range
		reads  int64
	}{
		"the same": {func(data []byte) volume.Source { return image(data) }, 1, nil, blocks},
		"one byte": {func(data []byte) volume.Source {
			data[volume.BlockSize*3/2] ^= 1
			data[len(data)-1] ^= 1
			return image(data)
		}, 1, []verify.Range{{First: 1, Last: 1}, {First: 5, Last: 5}}, blocks},
		"not listed": {func(data []byte) volume.Source { return without{image(data), []int64{0, 4, 5}} }, 1e-9,
			[]verify.Range{{First: 0, Last: 0}, {First: 4, Last: 5}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := l.against(t, row.sample, row.source)
			require.NoError(t, err)
			require.Equal(t, row.reads, got.Compared)
			require.Len(t, got.Gone, 1)
			require.Equal(t, 1, got.Opened)
			if row.want == nil {
				require.Empty(t, got.Findings)
				return
			}
			require.Len(t, got.Findings, 1)
			require.Equal(t, row.want, got.Findings[0].Blocks)
			require.EqualValues(t, 1, got.Findings[0].Store)
			require.Equal(t, "data", got.Findings[0].Role)
		})
	}
}

// A snapshot that cannot be read, or has another size, is not the archive's.
func TestRun_AgainstAnotherSize_Refused(t *testing.T) {
	t.Parallel()
	_, err := newLab(t, nil).against(t, 1, func(data []byte) volume.Source { return image(data[1:]) })
	require.True(t, failure.Is(err, failure.Corrupt), err)
}
