package volume

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file system may take a direct handle, and refuse its writes.
func TestDirectFile_WriteIsRefused_GoesThroughThePageCache(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	file, err := os.Create(path)
	require.NoError(t, err)
	refuses, err := os.Open(path)
	require.NoError(t, err)
	both := &directFile{File: file, direct: refuses}
	block := bytes.Repeat([]byte{7}, BlockSize)
	n, err := both.WriteAt(block, BlockSize)
	require.NoError(t, err)
	require.Equal(t, BlockSize, n)
	require.NoError(t, both.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, append(make([]byte, BlockSize), block...), got)
}
