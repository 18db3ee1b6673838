package ext4_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

// Of anything unusual nothing is free, and the map has the reason.
func TestRead_Odd_NothingIsFree(t *testing.T) {
	t.Parallel()
	path := makeImage(t, 32, files(t, 3), "-b", "1024", "-O", "uninit_bg")
	for name, at := range map[string]struct {
		commands []string // of debugfs, which corrects the superblock's checksum
		want     string
	}{
		"meta_bg":               {commands: []string{"feature meta_bg"}, want: "not handled: incompat 0x10"},
		"fast commits":          {commands: []string{"feature fast_commit"}, want: "not handled: compat 0x400"},
		"bigalloc":              {commands: []string{"feature bigalloc"}, want: "not handled: ro_compat 0x200"},
		"a feature of tomorrow": {commands: []string{"ssv feature_incompat 0x800002c2"}, want: "not handled: incompat 0x80000000"},
		"journal elsewhere":     {commands: []string{"ssv journal_dev 2049"}, want: "the journal is on another device"},
		"errors":                {commands: []string{"ssv state 3"}, want: "its state is 0x3"},
		"mounted, no journal":   {commands: []string{"ssv state 0"}, want: "its state is 0x0"},
		"larger":                {commands: []string{"ssv blocks_count 40000"}, want: "the volume ends before its file system does"},
		"much larger":           {commands: []string{"ssv blocks_count 0x7fffffffffff"}, want: "more than 1048576 groups"},
		"blocks of 64 KiB":      {commands: []string{"ssv log_block_size 6"}, want: "revision 1 and blocks of 2^6 KiB"},
		"clusters":              {commands: []string{"ssv log_cluster_size 4"}, want: "clusters of 2^4 KiB"},
		"small descriptors":     {commands: []string{"ssv desc_size 32"}, want: "the superblock makes no sense"},
		"no inodes":             {commands: []string{"ssv inodes_per_group 0"}, want: "the superblock makes no sense"},
		"huge groups":           {commands: []string{"ssv blocks_per_group 65536"}, want: "the superblock makes no sense"},
		"first block":           {commands: []string{"ssv first_data_block 0"}, want: "the superblock makes no sense"},
		"bitmap is elsewhere": {commands: []string{"set_bg 1 block_bitmap 40000", "set_bg 1 checksum calc"},
			want: "the descriptor of group 1 names blocks outside of the file system"},
		"count of free blocks": {commands: []string{"set_bg 0 free_blocks_count 1", "set_bg 0 checksum calc"},
			want: "free blocks by its bitmap, but 1 by its descriptor"},
		"no bitmap, some used": {commands: []string{"set_bg 2 flags 0x2", "set_bg 2 free_blocks_count 7", "set_bg 2 checksum calc"},
			want: "group 2 has no bitmap, but does not have all blocks free"},
		"first group has no bitmap": {commands: []string{"set_bg 0 flags 0x2", "set_bg 0 checksum calc"},
			want: "group 0 has no bitmap, but does not have all blocks free"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := mask(t, path, nil)
			debugfs(t, broken, at.commands...)
			m, free := read(t, broken)
			require.Contains(t, m.Reason(), at.want)
			require.Empty(t, free)
			require.Zero(t, m.Count())
		})
	}
}

// A changed bit is noticed by the checksum over it.
func TestRead_Damaged_NothingIsFree(t *testing.T) {
	t.Parallel()
	sums, copies := load(t, "sums").before, load(t, "copies").before
	raw, err := os.ReadFile(sums)
	require.NoError(t, err)
	for name, at := range map[string]struct {
		path   string
		offset int64
		want   string
	}{
		"another file system":     {sums, 1024 + 0x38, "has no ext4 file system"},
		"superblock":              {sums, 1024 + 0x30, "the checksum of the superblock is wrong"},
		"descriptor":              {sums, 2048 + 0xc, "the checksum of the descriptor of group 0 is wrong"},
		"descriptor of uninit_bg": {copies, 2048 + 32 + 0xc, "the checksum of the descriptor of group 1 is wrong"},
		"bitmap": {sums, int64(binary.LittleEndian.Uint32(raw[2048+64:]))<<10 + 70,
			"the checksum of the block bitmap of group 1 is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broken := mask(t, at.path, nil)
			flip(t, broken, at.offset)
			m, free := read(t, broken)
			require.Contains(t, m.Reason(), at.want)
			require.Empty(t, free)
			require.Zero(t, m.Count())
		})
	}
}

func flip(t *testing.T, path string, offset int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	one := make([]byte, 1)
	_, err = f.ReadAt(one, offset)
	require.NoError(t, err)
	one[0] ^= 4
	_, err = f.WriteAt(one, offset)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// failing is a volume whose reads fail.
type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestRead_ReadFails_IsAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("device is gone")
	_, err := ext4.Read(t.Context(), failing{broken}, 1<<30)
	require.ErrorIs(t, err, broken)
	_, err = ext4.Read(t.Context(), failing{io.EOF}, 1<<30)
	require.ErrorIs(t, err, io.EOF, "a volume that ends early is not an empty one")
	ended, end := context.WithCancel(t.Context())
	end()
	_, err = ext4.Read(ended, failing{broken}, 1<<30)
	require.ErrorIs(t, err, context.Canceled)
}

func TestRead_TooSmall_NothingIsFree(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, 2047} {
		m, err := ext4.Read(t.Context(), failing{io.EOF}, size)
		require.NoError(t, err)
		require.Contains(t, m.Reason(), "the volume ends before its file system does")
		require.False(t, m.Free(0))
	}
}
