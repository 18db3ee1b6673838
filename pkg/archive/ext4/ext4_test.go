package ext4_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// layouts are the options of mkfs.ext4 by which free blocks are found in different ways.
func layouts() map[string][]string {
	return map[string][]string{
		"usual":                 {},
		"1 KiB":                 {"-b", "1024"},
		"2 KiB":                 {"-b", "2048"},
		"4 KiB, small groups":   {"-b", "4096", "-g", "2048"},
		"32 bits":               {"-O", "^64bit"},
		"uninit_bg":             {"-O", "^metadata_csum,uninit_bg"},
		"uninit_bg, 32 bits":    {"-O", "^metadata_csum,uninit_bg,^64bit", "-b", "1024"},
		"no checksums":          {"-O", "^metadata_csum,^uninit_bg"},
		"sparse_super2":         {"-O", "sparse_super2,^resize_inode", "-b", "1024"},
		"a copy in each group":  {"-O", "^sparse_super,^resize_inode", "-b", "1024"},
		"no flex_bg":            {"-O", "^flex_bg", "-b", "1024"},
		"metadata_csum_seed":    {"-O", "metadata_csum_seed"},
		"no resize_inode":       {"-O", "^resize_inode", "-g", "4096"},
		"large flex groups":     {"-G", "64", "-b", "1024"},
		"orphan_file":           {"-O", "orphan_file"},
		"no journal":            {"-O", "^has_journal"},
		"ends within a block":   {"-b", "1024", "-g", "1000"},
		"many inodes, 128 byte": {"-I", "128", "-i", "4096", "-g", "2048"},
	}
}

// dumpe2fs and this package agree on every layout; without the free blocks nothing is missing.
func TestRead_Layouts_AsDumpe2fs(t *testing.T) {
	t.Parallel()
	for name, options := range layouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := files(t, 1)
			path := makeImage(t, 97, folder, options...)
			m, free := read(t, path)
			require.Empty(t, m.Reason())
			require.Equal(t, freeBlocks(t, path), free)
			require.Greater(t, len(free), 20)
			masked := mask(t, path, free)
			tool(t, "e2fsck", "-fn", masked)
			requireSame(t, content(t, folder), dump(t, masked))
		})
	}
}

// A volume that is larger than its file system may have anything behind it.
func TestRead_VolumeIsLarger_TheRestIsNotFree(t *testing.T) {
	t.Parallel()
	path := makeImage(t, 64, files(t, 2), "-b", "1024")
	_, free := read(t, path)
	require.Contains(t, free, int64(127))
	require.NoError(t, os.Truncate(path, 128<<20))
	_, larger := read(t, path)
	require.Equal(t, free, larger)
}
