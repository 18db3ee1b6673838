package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/volume"
)

// pruned is the output of a prune.
func (l *archiveLab) pruned(t *testing.T, args ...string) *archivePruneDoc {
	t.Helper()
	code, out, stderr := l.run(t, append([]string{"prune", "--min-age", "0s", "-o", "json"}, args...)...)
	require.Equal(t, ExitDone, code, stderr)
	doc := &archivePruneDoc{}
	require.NoError(t, json.Unmarshal([]byte(out), doc))
	return doc
}

// What only a forgotten archive uses is deleted, and the others are whole.
func TestArchiveForget_And_Prune(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "old-1", 4)
	kept := l.put(t, "new-1", 4)
	before := len(l.packs(t))

	code, out, stderr := l.run(t, "forget", "old-1", "--dry-run", "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveForgetDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Len(t, doc.Items, 1)
	require.Equal(t, archiveForget, doc.Items[0].Action)
	code, _, stderr = l.run(t, "forget", "old-1")
	require.EqualValues(t, 2, code, stderr)
	require.Contains(t, stderr, "--yes")
	code, out, stderr = l.run(t, "forget", "old-1", "--yes")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, "forgotten")
	code, _, _ = l.run(t, "describe", "old-1")
	require.EqualValues(t, 4, code)

	dry := l.pruned(t, "--dry-run")
	require.Positive(t, dry.Garbage.Packs)
	require.Positive(t, dry.Garbage.Bytes)
	require.NotNil(t, dry.MonthUSD)
	require.Len(t, l.packs(t), before)
	done := l.pruned(t, "--yes")
	require.Equal(t, dry.Garbage, done.Garbage)
	require.Equal(t, dry.Garbage, done.Deleted)
	require.Len(t, l.packs(t), before-int(dry.Garbage.Packs))
	require.Zero(t, l.pruned(t, "--yes").Garbage)

	file := filepath.Join(t.TempDir(), "data.img")
	code, _, stderr = l.run(t, "cat", "new-1", "4/data", "--to", file)
	require.Equal(t, ExitDone, code, stderr)
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, kept, got)
}

// The storage has only what is there, and a dry run changes nothing of it.
func TestArchiveForget_WithTheStorage_CountsWhatIsLeft(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	storage := t.TempDir()
	l.put(t, "one", 1)
	l.put(t, "two", 2)
	code, _, stderr := l.run(t, "verify", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	before := l.recorded(t, storage)
	require.Equal(t, 2, before.Clusters[0].Archives)
	code, _, stderr = l.run(t, "forget", "one", "--dry-run", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, before, l.recorded(t, storage))
	code, _, stderr = l.run(t, "forget", "one", "--yes", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, 1, l.recorded(t, storage).Clusters[0].Archives)
	code, _, stderr = l.run(t, "forget", "two", "--yes", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	require.Empty(t, l.recorded(t, storage).Clusters)
}

// Of a pack that is mostly unused what is in use is copied; a dry run has the bytes and their price.
func TestArchivePrune_MostlyUnusedPacks_AreRewritten(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	data := l.put(t, "all", 20)
	r := l.open(t)
	a, err := r.Archive(t.Context(), "all")
	require.NoError(t, err)
	v := &a.Stores[0].Volumes[0]
	s, err := r.Segment(t.Context(), v.Segments[0])
	require.NoError(t, err)
	sum := format.NewChecksum()
	sum.Add(s[0].Block.Digest)
	for i := range s[1:] {
		s[i+1] = format.Place{}
	}
	v.Counts, v.Checksum = format.Counts{Saved: 1}, sum.Sum()
	v.Segments[0], err = r.PutSegment(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, r.Commit(t.Context(), "one", a))
	code, _, stderr := l.run(t, "forget", "all", "--yes")
	require.Equal(t, ExitDone, code, stderr)

	dry := l.pruned(t, "--dry-run")
	require.Positive(t, dry.Rewriting.FreedBytes)
	require.NotNil(t, dry.FreedMonthUSD)
	require.Positive(t, *dry.RewriteUSD)
	require.Zero(t, l.pruned(t, "--dry-run", "--max-unused", "100%").Rewriting)
	storage := t.TempDir()
	code, _, stderr = l.run(t, "verify", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	require.Zero(t, l.recorded(t, storage).Clusters[0].UnreadBlocks)
	code, out, stderr := l.run(t, "prune", "--yes", "--min-age", "0s", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	require.InDelta(t, 1, l.recorded(t, storage).Clusters[0].UnreadBlocks, 1e-9)
	require.Regexp(t, `(?m)^rewritten .* 1 packs: reads .*; replaces 1 archives$`, out)
	require.Zero(t, l.pruned(t, "--yes").Rewriting)
	require.Len(t, l.packs(t), 1)
	code, out, stderr = l.run(t, "cat", "one", "4/data", "--to", "-")
	require.Equal(t, ExitDone, code, stderr)
	require.True(t, string(data[:volume.BlockSize]) == out[:volume.BlockSize])
	code, _, stderr = l.run(t, "verify")
	require.Equal(t, ExitDone, code, stderr)
}

// Garbage waits for whoever may read it, who is named.
func TestArchivePrune_LeaseInTheWay_Waits(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "old-1", 4)
	held, err := lease.Read(t.Context(), l.open(t).Objects(), "restore")
	require.NoError(t, err)
	code, _, stderr := l.run(t, "forget", "old-1", "--yes")
	require.Equal(t, ExitDone, code, stderr)
	doc := l.pruned(t, "--yes")
	require.Len(t, doc.Waiting, 1)
	require.Contains(t, doc.Waiting[0].Leases[0], "restore")
	require.NotEmpty(t, l.packs(t))
	code, out, stderr := l.run(t, "prune", "--yes")
	require.Equal(t, ExitDone, code, stderr)
	require.Regexp(t, `(?m)^waiting .* of restore$`, out)
	require.NoError(t, held.Release(t.Context()))
	require.Positive(t, l.pruned(t, "--yes").Deleted.Packs)
	files, err := filepath.Glob(filepath.Join(l.folder, "packs", "*", "*"))
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestArchiveForgetAndPrune_WrongFlags_AreRefused(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no rule": {"forget", "--yes"}, "rules and names": {"forget", "a", "--keep-last", "1", "--yes"},
		"of and names": {"forget", "a", "--of", "tidb/prod", "--yes"},
		"bad rule":     {"forget", "--keep-last", "-2", "--yes"}, "no yes": {"prune"},
		"breaks the living": {"prune", "--yes", "--break-leases-after", "1h"}, "no share": {"prune", "--yes", "--max-unused", "10"}, "negative age": {"prune", "--yes", "--min-age", "-1s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, append([]string{"archive"}, args...)...)
			require.EqualValues(t, 2, code, stderr)
		})
	}
}

// The rules of one cluster forget no other cluster's archives.
func TestArchiveForget_OfOneCluster_LeavesTheOthers(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	for id, of := range map[string]string{"a-1": "tidb/a", "a-2": "tidb/a", "b-1": "tidb/b", "b-2": "tidb/b"} {
		a := anArchive(id, 1)
		a.Cluster, a.Manifest = of, format.NewManifest(nil)
		require.NoError(t, l.open(t).Commit(t.Context(), id, a))
	}
	code, out, stderr := l.run(t, "forget", "--keep-last", "1", "--of", "tidb/a", "--yes", "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	var doc archiveForgetDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Len(t, doc.Items, 2)
	left, err := l.open(t).Archives(t.Context())
	require.NoError(t, err)
	require.Len(t, left, 3)
	require.Subset(t, left, []string{"b-1", "b-2"})
	code, _, stderr = l.run(t, "forget", "--keep-last", "1", "--of", "tidb/c", "--yes")
	require.EqualValues(t, 4, code, stderr)
}
