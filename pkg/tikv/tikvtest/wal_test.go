package tikvtest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// replayed opens a log and returns its records.
func replayed(t *testing.T, dev *disk.Device) (*wal, []string) {
	t.Helper()
	var records []string
	w, err := openWAL(dev, func(r []byte) error {
		records = append(records, string(r))
		return nil
	})
	require.NoError(t, err)
	return w, records
}

func TestWAL_Reopened_HasWhatWasFlushed(t *testing.T) {
	t.Parallel()
	dev := disk.New(1 << 20)
	w, records := replayed(t, dev)
	require.True(t, w.fresh)
	require.Empty(t, records)
	w.append([]byte("a"))
	w.append([]byte("b"))
	require.NoError(t, w.flush())
	w.append([]byte("only buffered"))
	w, records = replayed(t, dev)
	require.False(t, w.fresh)
	require.Equal(t, []string{"a", "b"}, records)
	w.append([]byte("c"))
	require.NoError(t, w.flush())
	_, records = replayed(t, dev)
	require.Equal(t, []string{"a", "b", "c"}, records)
}

func TestWAL_TornTail_IsDroppedAndOverwritten(t *testing.T) {
	t.Parallel()
	dev := disk.New(1 << 20)
	w, _ := replayed(t, dev)
	w.append([]byte("whole"))
	w.append(bytes.Repeat([]byte("x"), 2*disk.PageSize))
	require.NoError(t, w.flush())
	dev.Discard(superblocks+disk.PageSize, 2*disk.PageSize) // as if only the first page had been written
	w, records := replayed(t, dev)
	require.Equal(t, []string{"whole"}, records)
	w.append([]byte("next"))
	require.NoError(t, w.flush())
	_, records = replayed(t, dev)
	require.Equal(t, []string{"whole", "next"}, records)
}

func TestWAL_DamageInTheMiddle_IsAnError(t *testing.T) {
	t.Parallel()
	dev := disk.New(1 << 20)
	w, _ := replayed(t, dev)
	w.append([]byte("first"))
	w.append([]byte("second"))
	require.NoError(t, w.flush())
	_, err := dev.WriteAt([]byte("X"), superblocks+recordHeader)
	require.NoError(t, err)
	_, err = openWAL(dev, func([]byte) error { return nil })
	require.ErrorIs(t, err, errCorrupt)
}

func TestWAL_Checkpoints_RunRoundTheRing(t *testing.T) {
	t.Parallel()
	dev := disk.New(superblocks + 4*disk.PageSize)
	w, _ := replayed(t, dev)
	for i := range 200 {
		latest := fmt.Appendf(nil, "state %d %s", i, bytes.Repeat([]byte("."), 1000))
		for range 20 {
			w.append(latest)
		}
		require.NoError(t, w.flush())
		require.NoError(t, w.checkpoint(func(emit func([]byte) error) error { return emit(latest) }))
		var records []string
		w, records = replayed(t, dev)
		require.Equal(t, []string{string(latest)}, records)
	}
	require.LessOrEqual(t, dev.Used(), int64(superblocks+2*disk.PageSize))
}

func TestWAL_CheckpointWithoutSuperblock_ReplaysBoth(t *testing.T) {
	t.Parallel()
	dev := disk.New(1 << 20)
	w, _ := replayed(t, dev)
	w.append([]byte("old"))
	require.NoError(t, w.flush())
	before := disk.Cut(dev)[0]
	superblock := make([]byte, superblocks)
	_, err := before.ReadAt(superblock, 0)
	require.NoError(t, err)
	require.NoError(t, w.checkpoint(func(emit func([]byte) error) error { return emit([]byte("new")) }))
	_, err = dev.WriteAt(superblock, 0)
	require.NoError(t, err)
	_, records := replayed(t, dev)
	require.Equal(t, []string{"old", "new"}, records)
}

func TestWAL_DeviceFull_IsAnError(t *testing.T) {
	t.Parallel()
	w, _ := replayed(t, disk.New(superblocks+disk.PageSize))
	w.append(make([]byte, 2*disk.PageSize))
	require.ErrorContains(t, w.flush(), "no space left")
}
