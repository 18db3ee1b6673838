package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/verify"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestArchiveVerify_Sound_EndsWithZero(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	code, _, stderr := l.run(t, "verify")
	require.Equal(t, ExitCode(4), code, "nothing to verify is no success: %s", stderr)
	l.put(t, "one", 10)
	l.put(t, "two", 5)
	code, out, stderr := l.run(t, "verify", "-o", "json")
	require.Equal(t, ExitDone, code, stderr)
	require.Contains(t, out, `"blocks": 17`)
	code, out, stderr = l.run(t, "verify", "two-backup", "--level", "headers")
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, "1 archives, 1 map segments, 0 blocks read: 0 findings\n", out)
	code, _, stderr = l.run(t, "verify", "--sample", "10%")
	require.Equal(t, ExitDone, code, stderr)
}

func TestArchiveVerify_Damage_IsNamed_EndsWithTen(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	pack := l.packs(t)[0]
	damage(t, pack)
	code, out, stderr := l.run(t, "verify")
	require.Equal(t, ExitCode(10), code, stderr)
	require.Contains(t, out, "archive one, store 4 data, blocks 5:\n  packs/")
	require.Contains(t, stderr, "1 objects are damaged: packs/")
	require.NoError(t, os.Remove(pack))
	require.NoError(t, os.WriteFile(filepath.Join(l.folder, "archives", "two"), nil, 0o600))
	code, out, stderr = l.run(t, "verify", "--level", "objects", "-o", "json")
	require.Equal(t, ExitCode(10), code, stderr)
	var doc archiveVerifyDoc
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Len(t, doc.Findings, 2)
	require.Equal(t, "archives/two", doc.Findings[0].Object)
	require.Contains(t, doc.Findings[1].Problem, "it is missing")
}

// What is read is recorded in the repository, and in the storage for the exporter; damage makes it unread again.
func TestArchiveVerify_WhatWasRead_IsRecorded(t *testing.T) {
	t.Parallel()
	l := newArchiveLab(t)
	l.put(t, "one", 10)
	storage := t.TempDir()
	recorded := func() manifest.ClustersArchives {
		text, err := os.ReadFile(filepath.Join(storage, "archives", l.id+".json"))
		require.NoError(t, err)
		doc, err := manifest.DecodeArchives(text)
		require.NoError(t, err)
		require.Len(t, doc.Clusters, 1)
		return doc.Clusters[0]
	}
	_, out, _ := l.run(t, "describe", "one")
	require.Contains(t, out, "verified    never")
	code, _, stderr := l.run(t, "verify", "--sample", "60%", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	_, out, _ = l.run(t, "describe", "one")
	require.Contains(t, out, "about 40% of its blocks never")
	got := recorded()
	require.Equal(t, "tidb/production-of-a-long-name", got.Cluster.String())
	require.Equal(t, 1, got.Archives)
	require.InDelta(t, .4, got.UnreadBlocks/float64(got.Blocks), 1e-9)
	require.False(t, got.Verified.IsZero())
	code, _, stderr = l.run(t, "verify", "--level", "headers", "--storage", "file://"+storage)
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, got, recorded())
	damage(t, l.packs(t)[0])
	code, _, _ = l.run(t, "verify", "--storage", "file://"+storage)
	require.Equal(t, ExitCode(10), code)
	require.InDelta(t, recorded().Blocks, recorded().UnreadBlocks, 1e-9)
}

func TestArchiveVerify_WrongSample_Refused(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"--sample 0%", "--sample 101%", "--sample 5", "--sample NaN%", "--sample x", "--sample 1% --level headers",
		"--level blocks",
	} {
		code, _, stderr := run(t, append([]string{"archive", "verify"}, strings.Fields(args)...)...)
		require.Equal(t, ExitCode(2), code, stderr)
	}
}

// A small sample may draw no block of a snapshot that exists: only if none does was nothing compared.
func TestArchiveVerify_SomeSnapshotExists_IsNoError(t *testing.T) {
	t.Parallel()
	doc := archiveVerifyDoc{Result: &verify.Result{Gone: []string{"snap-1"}}}
	require.True(t, failure.Is(doc.damaged(true), failure.NotFound))
	doc.Opened = 1
	require.NoError(t, doc.damaged(true))
}
