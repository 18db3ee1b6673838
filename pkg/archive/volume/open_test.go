package volume_test

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestOpenFile_IsTheFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4096, 4097, 3 * volume.BlockSize, 40*volume.BlockSize + 4096, 33*volume.BlockSize + 5} {
		l := newLab(t)
		data := content(1, 41)[:size]
		path := filepath.Join(t.TempDir(), "image")
		require.NoError(t, os.WriteFile(path, data, 0o400)) // reading is enough
		file, err := volume.OpenFile(path)
		require.NoError(t, err)
		v, _, err := l.archive(t, file, volume.Base{}, nil)
		require.NoError(t, err)
		require.NoError(t, file.Check())
		require.NoError(t, file.Close())
		require.True(t, bytes.Equal(data, l.restored(t, v)), "%d bytes", size)
	}
}

// A state is equal as long as the file was not changed, also for another process.
func TestFile_State_ShowsAnyChange(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	state := func() string {
		file, err := volume.OpenFile(path)
		require.NoError(t, err)
		defer file.Close()
		require.NotEmpty(t, file.State())
		return file.State()
	}
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o600))
	first := state()
	require.Equal(t, first, state())
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, []byte("another"), 0o600))
	require.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	require.NotEqual(t, first, state(), "another file of the same size and time")
}

func TestOpenFile_NoVolume_IsAUsageError(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	fifo := filepath.Join(folder, "fifo")
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{folder, fifo, "/dev/null", filepath.Join(folder, "none")} {
		_, err := volume.OpenFile(path)
		require.True(t, failure.Is(err, failure.Usage), "%s: %v", path, err)
		require.Equal(t, path == fifo, failure.HintOf(err) != "", "a pipe can be redirected")
	}
}
