package volume

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
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

// What is larger than a block is not written from the buffer of one, nor cut off.
func TestDirectFile_WritesManyBlocks_All(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	file, err := os.Create(path)
	require.NoError(t, err)
	both := newDirect(file, os.O_RDWR)
	blocks := bytes.Repeat([]byte("0123456789abcdef"), 2*BlockSize/16)
	n, err := both.WriteAt(blocks, BlockSize)
	require.NoError(t, err)
	require.Equal(t, len(blocks), n)
	require.NoError(t, both.Close())
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(append(make([]byte, BlockSize), blocks...), got))
}

// A file system may refuse direct reads, and an address be any.
func TestDirectFile_Reads_AnyAddressAndRefusal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	content := bytes.Repeat([]byte("0123456789abcdef"), 3*BlockSize/16)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	refuses, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer refuses.Close()
	for name, direct := range map[string]*os.File{
		"none": nil, "direct": openDirect(path, os.O_RDONLY), "refuses": refuses,
	} {
		both := &directFile{File: file, direct: direct}
		aligned := alignedBuffer(2*BlockSize + 1)
		require.Zero(t, misaligned(aligned))
		for _, buffer := range [][]byte{
			aligned[:BlockSize], aligned[1:][:BlockSize], aligned[:4096], aligned[:17], aligned[:2*BlockSize], aligned[1:],
		} {
			clear(aligned)
			n, err := both.ReadAt(buffer, BlockSize)
			require.NoError(t, err, name)
			require.Equal(t, content[BlockSize:BlockSize+n], buffer, name)
			require.Len(t, buffer, n)
		}
		_, err = both.ReadAt(aligned[:BlockSize], 3*BlockSize)
		require.ErrorIs(t, err, io.EOF, name)
	}
	require.NoError(t, file.Close())
}

// A file that takes the name of one that is open already is not read in its place.
func TestNewDirect_AnotherFileHasTheName_IsNotRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, bytes.Repeat([]byte{1}, BlockSize), 0o600))
	require.NoError(t, os.WriteFile(path+"2", bytes.Repeat([]byte{2}, BlockSize), 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, os.Rename(path+"2", path))
	both := newDirect(file, os.O_RDONLY)
	require.Nil(t, both.direct)
	block := alignedBuffer(BlockSize)
	_, err = both.ReadAt(block, 0)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat([]byte{1}, BlockSize), block)
	require.NoError(t, both.Close())
}

// A device has to be opened in another way than a file.
func TestFile_Measure_AnotherTypeThanSeen_IsAConflict(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(path, []byte{1}, 0o600))
	file, err := os.Open(path)
	require.NoError(t, err)
	f := &File{path: path, file: newDirect(file, os.O_RDONLY)}
	require.NoError(t, f.measure(0))
	require.True(t, failure.Is(f.measure(os.ModeDevice), failure.Conflict))
	require.NoError(t, f.Close())
}
