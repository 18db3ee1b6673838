package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
)

// imported imports from standard input and a file, and returns the archive's id.
func (l *archiveLab) imported(t *testing.T, name string, piped []byte, files ...string) archiveImportDoc {
	t.Helper()
	args := []string{"archive", "import", name, "--from", "7/log=-", "--repo", l.url(), "--repo-identity", l.identity, "-o", "json"}
	for _, f := range files {
		args = append(args, "--from", f)
	}
	var out, stderr bytes.Buffer
	code := Run(t.Context(), args, Streams{In: bytes.NewReader(piped), Out: &out, Err: &stderr}, Version{})
	require.Equal(t, ExitDone, code, stderr.String())
	var doc archiveImportDoc
	require.NoError(t, json.Unmarshal(out.Bytes(), &doc))
	require.True(t, doc.Committed)
	return doc
}

func inBinary(t *testing.T, data []byte) string { return inFile(t, string(data)) }

// What was imported is an archive for every command that reads volumes, and none of a backup.
func TestArchiveImport_IsAnArchiveOfVolumesAlone(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	piped, image := bytes.Repeat([]byte("piped "), 200_000), bytes.Repeat([]byte("image "), 300_000)
	file := inBinary(t, image)
	first := l.imported(t, "disk", piped, "4/data="+file)
	require.Equal(t, l.id, first.Repository)
	require.Len(t, first.Items, 2)
	require.Equal(t, "-", first.Items[0].Source)
	require.Equal(t, file, first.Items[1].Source)
	require.EqualValues(t, len(piped), first.Items[0].Size)
	second := l.imported(t, "disk", append(piped, 'x'), "4/data="+file)
	require.Equal(t, first.Archive, second.Base)
	require.Zero(t, second.Items[1].PackedBytes)
	require.NotZero(t, second.Items[1].UnchangedBytes)

	code, out, stderr := l.run(t, "cat", first.Archive, "7/log", "--to", "-")
	require.Equal(t, ExitDone, code, stderr)
	require.True(t, string(piped) == out)
	dir := filepath.Join(t.TempDir(), "out")
	code, _, stderr = l.run(t, "restore", second.Archive, "--to-dir", dir)
	require.Equal(t, ExitDone, code, stderr)
	is, err := os.ReadFile(filepath.Join(dir, "store-4-data.img"))
	require.NoError(t, err)
	require.True(t, bytes.Equal(image, is))
	require.NoFileExists(t, filepath.Join(dir, "manifest.json"))
	device := inFile(t, "")
	require.NoError(t, os.Truncate(device, int64(len(image))))
	code, _, stderr = l.run(t, "fill", second.Archive, "--to", "4/data="+device)
	require.Equal(t, ExitDone, code, stderr)
	is, err = os.ReadFile(device)
	require.NoError(t, err)
	require.True(t, bytes.Equal(image, is))

	code, out, stderr = l.run(t, "describe", second.Archive)
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "import      disk")
	require.NotContains(t, out, "backup ts")
	code, out, stderr = l.run(t, "list")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "import disk")
	code, out, stderr = l.run(t, "list", "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, `"imported": true`)
	for _, args := range []string{"verify", "repair", "prune --yes"} {
		code, _, stderr = l.run(t, strings.Fields(args)...)
		require.Equal(t, ExitDone, code, "%s: %s", args, stderr)
	}

	a := &app{}
	c, err := a.connections(zap.NewNop())
	require.NoError(t, err)
	defer c.close()
	flags := &archivedFlags{on: true, repo: repoFlags{url: l.url(), identity: l.identity}}
	_, err = a.openSource(t.Context(), c, flags, second.Archive, journal.About{}, "")
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.ErrorContains(t, err, "it is an import of volumes, and no archive of a backup")
}

// The rules of forget keep the newest import of each name, and go by the time of each.
func TestArchiveForget_Imports_NewestOfEachNameIsKept(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	one := l.imported(t, "disk", []byte("1"))
	two := l.imported(t, "disk", []byte("2"))
	other := l.imported(t, "other", []byte("3"))
	code, out, stderr := l.run(t, "forget", "--keep-last", "1", "--yes", "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveForgetDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	actions := map[string]forgetAction{}
	for _, i := range doc.Items {
		actions[i.ID] = i.Action
		require.NotZero(t, i.Of.Year()-1970, "the time is that of the import")
	}
	require.Equal(t, map[string]forgetAction{
		one.Archive: archiveForgotten, two.Archive: archiveKept, other.Archive: archiveKept,
	}, actions)
	code, _, stderr = l.run(t, "prune", "--yes", "--min-age", "0s")
	require.Equal(t, ExitDone, code, stderr)
	code, out, stderr = l.run(t, "cat", "disk", "7/log", "--to", "-") // by its name, since it is the only one
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, "2", out)
}

func TestArchiveImport_WrongUse_EndsWithTwo(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	file := inFile(t, "content")
	for args, want := range map[string]string{
		"import":                                                              "NAME is missing",
		"import disk":                                                         "--from is missing",
		"import disk --from data=" + file:                                     "want STORE/ROLE=PATH",
		"import disk --from 4/data":                                           "want STORE/ROLE=PATH",
		"import disk --from x/data=" + file:                                   "want STORE/ROLE=PATH",
		"import a/b --from 4/data=" + file:                                    "a name is 1 to 100",
		"import disk --from 4/data=-":                                         "it is a terminal, or closed",
		"import disk --from 4/data=/none":                                     "no such file",
		"import disk --stdin-size 5 --from 4/data=" + file:                    "no source is standard input",
		"import disk --limit-rate x --from 4/data=" + file:                    "want a size",
		"import disk --from 4/data=" + file + " --from 4/data=/x":             "4/data is named twice",
		"import disk --lock-wait -1s --from 4/data=" + file:                   "--lock-wait",
		"import disk --skip-free no --from 4/data=" + file:                    "want one of off, auto, audit",
		"import disk --dry-run --from 4/data=" + filepath.Dir(file) + "/none": "no such file",
	} {
		code, _, stderr := l.run(t, strings.Fields(args)...)
		require.Equal(t, ExitCode(2), code, "%s: %s", args, stderr)
		require.Contains(t, stderr, want, args)
	}
	code, out, stderr := l.run(t, "import", "disk", "--dry-run", "--from", "4/data="+file, "--from", "4/log=-", "--skip-free", "auto")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "would import disk, without a base\nnothing was changed\n")
	require.Contains(t, out, "free blocks are unknown of 4/data")
}

// An import that fails names itself, makes no archive, and ends with the code of its reason.
func TestArchiveImport_Fails_IsContinuedByTheSameCommand(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	args := []string{"archive", "import", "disk", "--from", "1/data=-", "--stdin-size", "5MiB", "--repo", l.url(), "--repo-identity", l.identity}
	var out, stderr bytes.Buffer
	read, write := io.Pipe()
	go func() {
		_, _ = write.Write(make([]byte, volume.BlockSize+1))
		_ = write.Close()
	}()
	code := Run(t.Context(), args, Streams{In: read, Out: &out, Err: &stderr}, Version{})
	require.Equal(t, ExitCode(10), code, stderr.String())
	require.Contains(t, stderr.String(), "it ended after 524289 bytes, not 5242880")
	require.Contains(t, out.String(), "no archive of disk was made; the same command continues")
	code, list, _ := l.run(t, "list")
	require.Equal(t, ExitDone, code)
	require.Equal(t, "no archives\n", list)
}
