package snapshot_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
	"github.com/tisnap/tisnap/pkg/archive/snapshot"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
)

// The free blocks of a snapshot are those of its volume, and are found from few blocks, each read once.
func TestFree_OfASnapshot_ReadsFewBlocks(t *testing.T) {
	t.Parallel()
	packed, err := os.ReadFile("../ext4/testdata/groups-after.img.zst")
	require.NoError(t, err)
	d, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer d.Close()
	image, err := d.DecodeAll(packed, nil)
	require.NoError(t, err)
	want, err := ext4.Read(t.Context(), bytes.NewReader(image), int64(len(image)))
	require.NoError(t, err)
	require.NotZero(t, want.Count())

	a := newAccount(t)
	device, err := a.server.Device(a.volume)
	require.NoError(t, err)
	for at := 0; at < len(image); at += volume.BlockSize {
		if block := image[at:][:volume.BlockSize]; !volume.IsZero(block) {
			_, err := device.WriteAt(block, int64(at))
			require.NoError(t, err)
		}
	}
	id := a.cut(t)
	before := a.Stats()
	got, err := snapshot.Free(t.Context(), a, id)
	require.NoError(t, err)
	require.Empty(t, got.Reason())
	for b := range int64(blocks) {
		require.Equal(t, want.Free(b), got.Free(b), "block %d", b)
	}
	require.LessOrEqual(t, a.Stats().Reads-before.Reads, int64(4), "descriptors, bitmaps and the journal's begin")
}

func TestFree_NoFileSystem_NothingIsFree(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	m, err := snapshot.Free(t.Context(), a, a.cut(t))
	require.NoError(t, err)
	require.Contains(t, m.Reason(), "no ext4 file system")
	require.False(t, m.Free(1))
	_, err = snapshot.Free(t.Context(), a, "snap-none")
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	require.Equal(t, ebsdirect.BlockSize, ext4.BlockSize)
}

// broken ends each list of blocks by an error after its first one.
type broken struct{ *ebsdirect.Client }

var errBroken = errors.New("broken")

func (b broken) Blocks(
	ctx context.Context, id cluster.SnapshotID, from int64,
) iter.Seq2[ebsdirect.Block, error] {
	return func(yield func(ebsdirect.Block, error) bool) {
		for block, err := range b.Client.Blocks(ctx, id, from) {
			if yield(block, err) {
				yield(ebsdirect.Block{}, errBroken)
			}
			return
		}
	}
}

// Blocks behind a list that broke off are not taken for zeros, by which a bitmap's would be free.
func TestFree_ListBreaksOff_IsTheError(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	a.write(t, rand.NewChaCha8([32]byte{}), 0, 1)
	_, err := snapshot.Free(t.Context(), broken{a.Client}, a.cut(t))
	require.ErrorIs(t, err, errBroken)
}
