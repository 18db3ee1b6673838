package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// restore restores the archive "one" into a folder, and returns what was done about its only image.
func (l *archiveLab) restore(t *testing.T, dir string) (ExitCode, restoredImage, string) {
	t.Helper()
	code, out, stderr := l.run(t, "restore", "one", "--to-dir", dir, "-o", "json")
	var doc archiveRestoreDoc
	if out == "" {
		return code, restoredImage{}, stderr
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc), out)
	require.Len(t, doc.Items, 1)
	return code, doc.Items[0], stderr
}

func TestArchiveRestore_WritesImages_AndKeepsThem(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	dir := filepath.Join(t.TempDir(), "restored")
	code, image, stderr := l.restore(t, dir)
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, imageWritten, image.Action)
	require.Equal(t, filepath.Join(dir, "store-4-data.img"), image.File)
	is, err := os.ReadFile(image.File)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, is))
	manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	require.NoError(t, err)
	require.Equal(t, "{}", string(manifest))

	code, image, stderr = l.restore(t, dir)
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, imageKept, image.Action)

	damage(t, image.File)
	code, _, stderr = l.restore(t, dir)
	require.Equal(t, ExitCode(6), code, "a file that only looks like it is not kept, nor replaced: %s", stderr)
	require.NoError(t, os.Remove(image.File))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("[]"), 0o600))
	code, _, stderr = l.restore(t, dir)
	require.Equal(t, ExitCode(6), code, stderr)
}

func TestArchiveRestore_DamagedBlock_LeavesNoImage(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	damage(t, l.packs(t)[0])
	dir := t.TempDir()
	code, image, stderr := l.restore(t, dir)
	require.Equal(t, ExitCode(10), code, stderr)
	require.Equal(t, imageFailed, image.Action)
	require.Contains(t, image.Error, "blocks 5 are damaged")
	require.NoFileExists(t, image.File)
}
