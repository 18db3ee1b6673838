package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// archiveLab is a repository in a folder.
type archiveLab struct {
	folder   string
	identity string // the file with its key
	id       string
}

// newArchiveLab creates a repository by the command.
func newArchiveLab(t *testing.T) *archiveLab {
	t.Helper()
	l := &archiveLab{folder: t.TempDir()}
	var recipient string
	l.identity, recipient = newIdentity(t)
	code, out, stderr := run(t, "archive", "init", "--repo", l.url(), "--recipient", recipient, "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveInitDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	l.id = doc.Repository
	return l
}

// newIdentity returns a file with a new age identity, and its recipient.
func newIdentity(t *testing.T) (file, recipient string) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return inFile(t, "# a comment\n"+identity.String()+"\n"), identity.Recipient().String()
}

func inFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (l *archiveLab) url() string { return "file://" + l.folder }

// run runs an archive command on the repository.
func (l *archiveLab) run(t *testing.T, args ...string) (ExitCode, string, string) {
	t.Helper()
	return run(t, append([]string{"archive"}, append(args, "--repo", l.url(), "--repo-identity", l.identity)...)...)
}

// open unlocks the repository, to put archives into it.
func (l *archiveLab) open(t *testing.T) *repository.Repository {
	t.Helper()
	store, err := objstore.Open(t.Context(), l.url(), objstore.Config{})
	require.NoError(t, err)
	identities, err := (&app{}).identities(&repoFlags{identity: l.identity})
	require.NoError(t, err)
	r, err := repository.Open(t.Context(), store, identities...)
	require.NoError(t, err)
	return r
}

func TestArchiveInit_EachKeyUnlocks(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	identity, recipient := newIdentity(t)
	passphrase := inFile(t, "correct horse\r\n")
	code, out, stderr := run(t, "archive", "init", "--repo", url, "--recipient", recipient, "--repo-passphrase-file",
		passphrase)
	require.Equal(t, ExitDone, code, stderr)
	require.NotContains(t, stderr, "warning")
	id := strings.Fields(out)[1]
	for _, key := range [][]string{
		{"--repo-identity", identity}, {"--repo-passphrase-file", passphrase}, {"--repo-id", id, "--repo-identity", identity},
	} {
		code, out, stderr = run(t, append([]string{"archive", "list", "--repo", url}, key...)...)
		require.Equal(t, ExitDone, code, stderr)
		require.Equal(t, "no archives\n", out)
	}
	code, _, stderr = run(t, "archive", "init", "--repo", url, "--recipient", recipient)
	require.Equal(t, ExitCode(6), code, stderr)
}

func TestArchiveInit_OneKey_Warns(t *testing.T) {
	t.Parallel()
	_, recipient := newIdentity(t)
	code, _, stderr := run(t, "archive", "init", "--repo", "file://"+t.TempDir(), "--recipient", recipient)
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, stderr, "warning: the repository has ONE key")
}

func TestArchive_WrongKeyOrRepository_Refused(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	stranger, recipient := newIdentity(t)
	secret, err := os.ReadFile(l.identity)
	require.NoError(t, err)
	broken := inFile(t, strings.ReplaceAll(string(secret), "AGE-SECRET-KEY-1", "AGE-SECRET-KEY-2"))
	for name, row := range map[string]struct {
		args string
		code ExitCode
		want string
	}{
		"no repository": {"list", 2, "--repo is missing"},
		"no key":        {"list --repo " + l.url(), 2, "no key is given"},
		"a stranger's key": {
			"list --repo " + l.url() + " --repo-identity " + stranger, 7, "none of its 1 key slots",
		},
		"a wrong passphrase": {
			"list --repo " + l.url() + " --repo-passphrase-file " + inFile(t, "guess"), 7, "none of its 1 key slots",
		},
		"an empty passphrase": {
			"list --repo " + l.url() + " --repo-passphrase-file " + inFile(t, "\n"), 2, "it is empty",
		},
		"no identity":         {"list --repo " + l.url() + " --repo-identity " + broken, 2, "no age identities"},
		"another id":          {"list --repo-id 00 --repo " + l.url() + " --repo-identity " + l.identity, 5, "its id is " + l.id},
		"an empty storage":    {"list --repo file://" + t.TempDir() + " --repo-identity " + l.identity, 4, "no repo.json"},
		"no such archive":     {"describe none --repo " + l.url() + " --repo-identity " + l.identity, 4, "no such archive"},
		"init without a key":  {"init --repo file://" + t.TempDir(), 2, "no key could unlock it"},
		"init by an identity": {"init --repo-identity x --repo file://" + t.TempDir(), 2, "--repo-identity is for"},
		"no recipient":        {"init --recipient age1x --repo file://" + t.TempDir(), 2, "no age recipient"},
		"one recipient twice": {
			"init --recipient " + recipient + "," + recipient + " --repo file://" + t.TempDir(), 2, "given twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := run(t, append([]string{"archive"}, strings.Fields(row.args)...)...)
			require.Equal(t, row.code, code, stderr)
			require.Contains(t, stderr, row.want)
			require.Empty(t, out)
			require.NotContains(t, stderr, "SECRET")
		})
	}
}

// anArchive is of a volume of 3 GiB, with blocks in each state.
func anArchive(backup string, day int) *format.Archive {
	return &format.Archive{
		Backup: backup, BackupTS: 462000000000000000, Cluster: "tidb/production-of-a-long-name",
		Created: time.Date(2026, 11, day, 1, 2, 3, 0, time.UTC), Manifest: format.NewManifest([]byte("{}")),
		Stores: []format.Store{{ID: 4, Volumes: []format.Volume{{
			Role: "data", Source: "snap-0123456789abcdef0", Size: 3 << 30, Segments: []format.SegmentName{{}},
			Counts: format.Counts{Saved: 2048, Zero: 5, Free: 7},
		}}}},
	}
}

func TestArchiveList_And_Describe(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	r := l.open(t)
	require.NoError(t, r.Commit(t.Context(), "prod-20261102-010203-0123456789", anArchive("prod-20261102-010203", 2)))
	require.NoError(t, r.Commit(t.Context(), "prod-20261101-010203-0123456789", anArchive("prod-20261101-010203", 1)))

	code, out, stderr := l.run(t, "list")
	require.Equal(t, ExitDone, code, stderr)
	require.Less(t, strings.Index(out, "prod-20261101"), strings.Index(out, "prod-20261102"), out)
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
	}
	code, out, stderr = l.run(t, "list", "-o", "name")
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, "archive/prod-20261101-010203-0123456789\narchive/prod-20261102-010203-0123456789\n", out)

	for _, ref := range []string{"latest", "prod-20261102", "prod-20261102-010203-0123456789"} {
		code, out, stderr = l.run(t, "describe", ref, "-o", "json")
		require.Equal(t, ExitDone, code, stderr)
		var doc archiveDoc
		require.NoError(t, json.Unmarshal([]byte(out), &doc))
		require.Equal(t, "prod-20261102-010203", doc.Backup)
		require.Equal(t, l.id, doc.Repository)
		require.EqualValues(t, 2048*volume.BlockSize, doc.Data)
		require.Equal(t, archiveVolume{
			Store: 4, Role: "data", Source: "snap-0123456789abcdef0", Size: 3 << 30, Segments: 1,
			Saved: 2048, Zero: 5, Free: 7, Absent: 6144 - 2048 - 5 - 7, Checksum: strings.Repeat("0", 64),
		}, doc.Items[0])
	}
	code, out, stderr = l.run(t, "describe", "latest")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "3.0 GiB")
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
	}
}

// A damaged archive is listed beside the others, and is never taken for success.
func TestArchiveList_DamagedArchive_EndsWithTen(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	r := l.open(t)
	require.NoError(t, r.Commit(t.Context(), "one", anArchive("nightly-1", 1)))
	require.NoError(t, os.WriteFile(filepath.Join(l.folder, "archives", "two"), []byte("tisnapA\x01"), 0o600))
	code, out, stderr := l.run(t, "list")
	require.Equal(t, ExitCode(10), code, stderr)
	require.Contains(t, out, "nightly-1")
	require.Contains(t, out, "two cannot be read: ")
	require.Contains(t, stderr, "1 cannot be read: two")
	code, out, _ = l.run(t, "list", "-o", "json")
	require.Equal(t, ExitCode(10), code)
	require.Contains(t, out, `"problem": `)
	code, _, stderr = l.run(t, "describe", "latest")
	require.Equal(t, ExitCode(10), code, stderr)
	code, _, stderr = l.run(t, "describe", "nightly-1")
	require.Equal(t, ExitDone, code, stderr)
}

func TestArchive_CommandsWithLargeBuffers_LimitMemory(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"create one --storage file:///none", "verify", "prune --yes"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var limits []int64
			streams := Streams{Out: io.Discard, Err: io.Discard, LimitMemory: func(bytes int64) { limits = append(limits, bytes) }}
			Run(t.Context(), append([]string{"archive"}, strings.Fields(args)...), streams, Version{})
			require.Equal(t, []int64{archiveMemory}, limits)
		})
	}
}
