package cli

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// put archives a volume of so many random blocks, a block of zeros and a short one, as store 4's data in an archive of
// this id, and returns its content. The store's other roles have the same.
func (l *archiveLab) put(t *testing.T, id string, blocks int, others ...string) []byte {
	t.Helper()
	data := make([]byte, (blocks+1)*volume.BlockSize+1000)
	random := rand.NewChaCha8([32]byte{byte(blocks)})
	_, _ = random.Read(data[:blocks*volume.BlockSize])
	_, _ = random.Read(data[(blocks+1)*volume.BlockSize:])
	r := l.open(t)
	packing := r.Pack(t.Context(), repository.PackOptions{
		Source: format.Source{Archive: id, Volumes: []format.SourceVolume{{Store: 4, Role: "data"}}},
		Names:  format.NewPackNames(), Packers: 1, Way: repository.Way{Uploads: 1},
	})
	archiver, err := volume.NewArchiver(r, packing, 1, 2)
	require.NoError(t, err)
	v, _, err := archiver.Archive(t.Context(), volume.Task{
		Source: &volume.Image{Bytes: int64(len(data)), From: bytes.NewReader(data)},
	})
	require.NoError(t, err)
	require.NoError(t, archiver.Flush())
	require.NoError(t, packing.Wait())
	a := anArchive(id+"-backup", 1)
	a.Stores[0].Volumes = nil
	for _, v.Role = range append([]string{"data"}, others...) {
		a.Stores[0].Volumes = append(a.Stores[0].Volumes, v)
	}
	require.NoError(t, r.Commit(t.Context(), id, a))
	return data
}

// packs are the files of the repository's packs.
func (l *archiveLab) packs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.folder, "packs", "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// damage flips a bit in the middle of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text[len(text)/2] ^= 1
	require.NoError(t, os.WriteFile(file, text, 0o600))
}

func TestArchiveCat_FileAndStandardOutput_AreTheVolume(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	file := filepath.Join(t.TempDir(), "data.img")
	code, out, stderr := l.run(t, "cat", "one-backup", "4/data", "--to", file, "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	is, err := os.ReadFile(file)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, is))
	var doc volumeDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Equal(t, "one", doc.Archive)
	require.EqualValues(t, 11, doc.Saved)

	code, out, stderr = l.run(t, "cat", "latest", "4/data", "--to", "-")
	require.Equal(t, ExitDone, code, stderr)
	require.True(t, string(data) == out)

	for args, want := range map[string]ExitCode{
		"cat one 4/data --to " + file: 6, "cat one 4/wal --to x": 4, "cat one data --to x": 2, "cat one 4/data": 2,
		"cat one 4/data --device-is-zeros --to x": 2, "cat one 4/data --to " + t.TempDir() + "/a/b": 2,
	} {
		code, _, stderr = l.run(t, strings.Fields(args)...)
		require.Equal(t, want, code, "%s: %s", args, stderr)
	}
	require.NoFileExists(t, "x")
}

// A damaged block is named, and is nowhere taken for zeros.
func TestArchiveCat_DamagedBlock_EndsWithTen(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	damage(t, l.packs(t)[0])
	folder := t.TempDir()
	code, _, stderr := l.run(t, "cat", "one", "4/data", "--to", filepath.Join(folder, "data.img"))
	require.Equal(t, ExitCode(10), code, stderr)
	require.Contains(t, stderr, "store 4 data: restore volume of data: blocks 5 are damaged")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left, "no file looks whole")
	code, out, stderr := l.run(t, "cat", "one", "4/data", "--to", "-")
	require.Equal(t, ExitCode(10), code, stderr)
	require.True(t, strings.HasPrefix(string(data), out))
}
