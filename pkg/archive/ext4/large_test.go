package ext4_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/ext4"
)

// counting counts reads.
type counting struct {
	*os.File
	reads, peak int64
}

func (c *counting) ReadAt(into []byte, offset int64) (int, error) {
	if c.reads++; c.reads%1000 == 0 {
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		c.peak = max(c.peak, int64(now.HeapAlloc))
	}
	return c.File.ReadAt(into, offset)
}

// A volume of 15 TiB takes few reads and little memory.
func TestRead_Large_IsBounded(t *testing.T) {
	if os.Getenv(required) == "" {
		t.Skip("its image takes 200 MB; make test-archive runs it")
	}
	const size = 15 << 40
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	require.NoError(t, os.Truncate(path, size))
	tool(t, "mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", path)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	c := &counting{File: f}
	m, err := ext4.Read(t.Context(), c, size)
	require.NoError(t, err)
	require.Empty(t, m.Reason())
	const groups = size >> 27
	require.Less(t, c.reads, int64(groups+groups/64+100), "each descriptor and bitmap once")
	require.Less(t, c.peak, int64(64<<20))
	require.Greater(t, m.Count(), int64(size/ext4.BlockSize*98/100))
	require.True(t, m.Free(size/ext4.BlockSize-1))
}
