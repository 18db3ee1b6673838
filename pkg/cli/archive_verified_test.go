package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// verified is what `archive describe` shows of an archive.
func (l *archiveLab) verified(t *testing.T, id string) (unread float64, ever bool) {
	t.Helper()
	code, out, stderr := l.run(t, "describe", id, "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.NotNil(t, doc.Unread)
	return *doc.Unread, !doc.Verified.IsZero()
}

// recorded is what a storage has of the repository.
func (l *archiveLab) recorded(t *testing.T, storage string) manifest.Archives {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(storage, "archives", l.id+".json"))
	require.NoError(t, err)
	doc, err := manifest.DecodeArchives(text)
	require.NoError(t, err)
	return doc
}

func TestArchiveVerify_NamedTwice_CountsOnce(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	code, out, stderr := l.run(t, "verify", "one", "one-backup", "latest", "--sample", "60%")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "1 archives, 1 map segments")
	unread, _ := l.verified(t, "one")
	require.InDelta(t, .4, unread, 1e-9)
}

// What was verified is unread again once damage is found, however it is found. A sound archive counts for what was read.
func TestArchiveVerified_DamageIsFoundInAnyWay_IsUnread(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args  []string
		reads bool // blocks
		same  bool // it changes nothing
	}{
		"verify objects":  {args: []string{"verify", "--level", "objects"}},
		"verify headers":  {args: []string{"verify", "--level", "headers"}},
		"repair objects":  {args: []string{"repair", "--level", "objects"}},
		"repair":          {args: []string{"repair", "--sample", "50%"}, reads: true},
		"repair, dry run": {args: []string{"repair", "--dry-run"}, same: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newArchiveLab(t)
			l.put(t, "one", 10)
			pack := l.packs(t)[0]
			l.put(t, "two", 5)
			code, _, stderr := l.run(t, "verify", "--sample", "60%")
			require.Equal(t, ExitDone, code, stderr)
			require.NoError(t, os.Remove(pack))
			code, _, stderr = l.run(t, row.args...)
			require.Equal(t, ExitCode(10), code, stderr)
			unread, ever := l.verified(t, "one")
			require.Equal(t, row.same, ever)
			want := map[bool]float64{true: .4, false: 1}
			require.InDelta(t, want[row.same], unread, 1e-9)
			unread, ever = l.verified(t, "two")
			require.True(t, ever)
			want = map[bool]float64{true: .2, false: .4}
			require.InDelta(t, want[row.reads], unread, 1e-9)
		})
	}
}

// An archive that cannot be read may be of any cluster: it is counted, and the cluster that has no other one stays.
func TestArchiveVerified_ArchiveCannotBeRead_IsCounted(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	storage := t.TempDir()
	recorded := func(want ExitCode) manifest.Archives {
		t.Helper()
		code, _, stderr := l.run(t, "verify", "--storage", "file://"+storage)
		require.Equal(t, want, code, stderr)
		return l.recorded(t, storage)
	}
	before := recorded(ExitDone)
	require.Zero(t, before.Unreadable)
	require.Len(t, before.Clusters, 1)
	require.Zero(t, before.Clusters[0].UnreadBlocks)
	damage(t, filepath.Join(l.folder, "archives", "one"))
	after := recorded(ExitCode(10))
	require.Equal(t, 1, after.Unreadable)
	require.Equal(t, before.Clusters, after.Clusters)
	require.NoError(t, os.Remove(filepath.Join(l.folder, "archives", "one")))
	l.put(t, "two", 5)
	after = recorded(ExitDone)
	require.Zero(t, after.Unreadable)
	require.Len(t, after.Clusters, 1)
}

// rival is a store in which another command writes each object first, so many times.
type rival struct {
	objstore.Store
	times int
}

func (r *rival) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if r.times--; r.times >= 0 {
		if _, err := r.Store.Create(ctx, key, []byte("{}")); err != nil {
			return "", err
		}
	}
	return r.Store.Create(ctx, key, body)
}

func (r *rival) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	if r.times--; r.times >= 0 {
		other, err := r.Store.Replace(ctx, key, append([]byte("{}"), make([]byte, r.times)...), old)
		if err != nil {
			return other, err
		}
	}
	return r.Store.Replace(ctx, key, body, old)
}

// What another command has written meanwhile is written again, and is no success while that fails.
func TestRecordArchives_OthersWriteIt_IsWrittenAgain(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	r := l.open(t)
	for times, written := range map[int]bool{0: true, 1: true, 4: true, 5: false} {
		store := &rival{Store: objstoretest.NewMemory(nil), times: times}
		err := recordArchives(t.Context(), store, r)
		require.Equal(t, !written, failure.Is(err, failure.Conflict), "%d: %v", times, err)
		text, _, err := store.Get(t.Context(), manifest.ArchivesKey(l.id))
		require.NoError(t, err)
		doc, err := manifest.DecodeArchives(text)
		require.Equal(t, written, err == nil && len(doc.Clusters) == 1, times)
	}
}

// denying is a store in which the record may not be read.
type denying struct{ objstore.Store }

func (d denying) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if key == format.VerifiedPath {
		return nil, "", failure.New(failure.Denied, "get object", key, "AccessDenied")
	}
	return d.Store.Get(ctx, key)
}

// Who may not read the record sees the archive nevertheless.
func TestArchiveDescribe_RecordMayNotBeRead_IsUnknown(t *testing.T) {
	t.Parallel()
	r, _, err := archivetest.New(t.Context(), denying{objstoretest.NewMemory(nil)}, 1<<20)
	require.NoError(t, err)
	var stderr bytes.Buffer
	a := &app{streams: Streams{Err: &stderr}}
	doc, err := a.describeArchive(t.Context(), readArchive{Repository: r, id: "one", archive: anArchive("one", 1)})
	require.NoError(t, err)
	require.Contains(t, stderr.String(), "AccessDenied")
	require.Equal(t, "unknown", doc.verified(view{}))
	text, err := json.Marshal(doc)
	require.NoError(t, err)
	require.NotContains(t, string(text), "unreadShare")
}
