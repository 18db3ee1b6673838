package volume_test

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

// in reports the blocks of a span.
func in(from, to int64) func(int64) bool {
	return func(index int64) bool { return index >= from && index < to }
}

// What was free in the base, and is in use now, is read although it did not change.
func TestArchive_FreeInTheBaseAndUsedNow_IsRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	base, _, err := l.archive(t, image(data), volume.Base{}, in(8, 24))
	require.NoError(t, err)
	require.EqualValues(t, 16, base.Counts.Free)
	changed := slices.Clone(data)
	for _, block := range []int{4, 10, 20} {
		changed[block*volume.BlockSize] ^= 1
	}
	task := volume.Task{
		Source: &difference{image(changed), []int64{4, 10, 20}, -1}, Whole: image(changed),
		Base: volume.Base{Segments: base.Segments, Differential: true}, Free: in(16, 24),
	}
	v, stats, err := l.do(t, task)
	require.NoError(t, err)
	require.Equal(t, volume.Stats{Read: 9, Free: 1, Zero: 2, Repeated: 0, Packed: 7}, stats,
		"4, and 8 to 15, of which 11 and 15 are zeros; 20 changed and is free")
	require.EqualValues(t, 8, v.Counts.Free)
	want := slices.Clone(changed)
	clear(want[16*volume.BlockSize : 24*volume.BlockSize])
	require.True(t, bytes.Equal(want, l.restored(t, v)))

	task.Free = nil
	v, stats, err = l.do(t, task)
	require.NoError(t, err)
	require.EqualValues(t, 17, stats.Read)
	require.Zero(t, v.Counts.Free)
	require.True(t, bytes.Equal(changed, l.restored(t, v)), "nothing counts as free")

	task.Whole = nil
	_, _, err = l.do(t, task)
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}

// What the volume no longer has is absent, whatever it was in the base.
func TestArchive_FreeInTheBaseAndNotThereNow_IsAbsent(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 8)
	base, _, err := l.archive(t, image(data), volume.Base{}, in(0, 8))
	require.NoError(t, err)
	v, stats, err := l.do(t, volume.Task{
		Source: &difference{image(data), []int64{2}, 2}, Whole: &difference{image(data), []int64{0, 1}, -1},
		Base: volume.Base{Segments: base.Segments, Differential: true}, Free: in(6, 8),
	})
	require.NoError(t, err)
	require.Equal(t, volume.Stats{Read: 2, Packed: 2}, stats)
	require.EqualValues(t, 2, v.Counts.Free)
	want := make([]byte, len(data))
	copy(want, data[:2*volume.BlockSize])
	copy(want[8*volume.BlockSize:], data[8*volume.BlockSize:])
	require.True(t, bytes.Equal(want, l.restored(t, v)))
}

// An audit reads all blocks, and counts those that would have been left out.
func TestArchive_Audit_ReadsAllAndCounts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 40)
	v, stats, err := l.do(t, volume.Task{Source: image(data), Free: in(8, 16), Audit: true})
	require.NoError(t, err)
	require.EqualValues(t, 41, stats.Read)
	require.Zero(t, stats.Free)
	require.EqualValues(t, 8, stats.Audited)
	require.EqualValues(t, 6, stats.AuditedData, "11 and 15 are zeros")
	require.Zero(t, v.Counts.Free)
	require.True(t, bytes.Equal(data, l.restored(t, v)))
}

// The list of all blocks fails: its blocks are not taken for zeros.
func TestArchive_ListOfTheWholeFails_IsTheError(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	data := content(1, 8)
	base, _, err := l.archive(t, image(data), volume.Base{}, in(0, 8))
	require.NoError(t, err)
	broken := errors.New("broken")
	var listed iter.Seq2[volume.Block, error] = func(yield func(volume.Block, error) bool) { yield(nil, broken) }
	for _, changed := range [][]int64{nil, {3}} {
		_, _, err = l.do(t, volume.Task{
			Source: &difference{image(data), changed, -1}, Whole: &failing{image(data), listed},
			Base: volume.Base{Segments: base.Segments, Differential: true},
		})
		require.ErrorIs(t, err, broken)
	}
}
