package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A repair takes lost blocks from an image, and lists what it cannot repair.
func TestArchiveRepair_FromAFile_IsWholeAgain(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "one", 10)
	code, out, stderr := l.run(t, "repair", "--level", "objects")
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, "0 repaired, 0 left; 0 blocks copied, 0 B of packs written, 0 archives replaced\n", out)
	require.NoError(t, os.Remove(l.packs(t)[0]))
	code, out, stderr = l.run(t, "repair", "-o", "json")
	require.Equal(t, ExitCode(10), code, stderr)
	require.Contains(t, stderr, "--from-snapshots")
	var doc archiveRepairDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Empty(t, doc.Repaired)
	require.Len(t, doc.Left, 1)
	require.Equal(t, "data", doc.Left[0].Role)
	require.NotEmpty(t, doc.Left[0].Blocks)
	image := filepath.Join(t.TempDir(), "data.img")
	require.NoError(t, os.WriteFile(image, data, 0o600))
	before := files(t, l.folder)
	code, out, stderr = l.run(t, "repair", "--from-file", "4/data="+image, "--dry-run")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "would be repaired: cluster tidb/production-of-a-long-name, archive one, store 4 data, blocks ")
	require.Contains(t, out, ", from "+image)
	require.Equal(t, before, files(t, l.folder))
	code, out, stderr = l.run(t, "repair", "--from-file", "4/data="+image)
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "1 archives replaced")
	code, _, stderr = l.run(t, "verify")
	require.Equal(t, ExitDone, code, stderr)
}

// files are the objects of a repository.
func files(t *testing.T, folder string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	}))
	return names
}

func TestArchiveRepair_WrongFlags_Refused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--from-file x", "--from-file 4/data", "--from-file x/data=y", "--from-file 4=y", "--from-file 4/d=y --from-file 4/d=z",
		"--sample 1% --level headers",
	} {
		code, _, stderr := run(t, append([]string{"archive", "repair"}, strings.Fields(args)...)...)
		require.Equal(t, ExitCode(2), code, "%s: %s", args, stderr)
	}
	l := newArchiveLab(t)
	l.put(t, "one", 1)
	code, _, stderr := l.run(t, "repair", "--from-file", "4/data=/none")
	require.Equal(t, ExitCode(2), code, stderr)
}
