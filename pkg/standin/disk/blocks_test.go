package disk_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

func TestImage_Blocks_AllocatedAndChanged(t *testing.T) {
	t.Parallel()
	const block = 4 * disk.PageSize
	d := disk.New(100 * block)
	write := func(block64 int64) {
		_, err := d.WriteAt([]byte{1}, block64*block+3*disk.PageSize)
		require.NoError(t, err)
	}
	write(7)
	write(2)
	write(50)
	older := disk.Cut(d)[0]
	write(7)
	write(8)
	d.Discard(50*block, block)
	newer := disk.Cut(d)[0]

	require.Equal(t, []int64{2, 7, 50}, older.Allocated(block))
	require.Equal(t, []int64{2, 7, 8}, newer.Allocated(block))
	require.Equal(t, []int64{7, 8, 50}, newer.Changed(older, block))
	require.Empty(t, newer.Changed(newer, block))

	copied, err := disk.FromImage(newer, newer.Size())
	require.NoError(t, err)
	_, err = copied.WriteAt([]byte{2}, 99*block)
	require.NoError(t, err)
	require.Equal(t, []int64{99}, disk.Cut(copied)[0].Changed(newer, block))
}
