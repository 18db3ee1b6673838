package report_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// archive is the report of an archive run.
func archive(a *report.Archived) *report.Report {
	return report.New(report.Header{
		Operation: report.Archive, Run: "r1", Backup: "nightly", Cluster: cluster.Name{Namespace: "tidb", Name: "prod"},
		Outcome: phase.Done, TiKVs: 1, Volumes: 1, Archived: a,
	}, phase.Timings{{Phase: "prepare", Seconds: 1}, {Phase: "archive blocks", Seconds: 8}, {Phase: "commit", Seconds: 1}})
}

func TestTable_Archive_CountsTheBlocks(t *testing.T) {
	t.Parallel()
	cost := 6.4
	of := report.ArchivedBytes{
		ReadBytes: 8 << 40, ZeroBytes: 1 << 40, UnchangedBytes: 4 << 40, RepeatedBytes: 1 << 40, PackedBytes: 2 << 40, FreeBytes: 1 << 30,
		AuditedBytes: 3 << 30, AuditedDataBytes: 1 << 30,
	}
	r := archive(&report.Archived{
		Repository: "feed", Archive: "nightly-1", Base: "older-1", ArchivedBytes: of, Packs: 32768, StoredBytes: 1 << 40,
		Lists: 1234, Reads: 16777216, Throttled: 3, RequestsUSD: &cost,
		Volumes: []report.ArchivedVolume{
			{Store: 1, Role: "data", ArchivedBytes: of, Seconds: 3600}, {Store: 2, Role: "data", Seconds: 7200, FreeUnknown: "no ext4"},
		},
	})
	var b bytes.Buffer
	require.NoError(t, r.Table(&b, report.TableOptions{Compare: true}))
	for _, line := range []string{
		"archive nightly of tidb/prod: done\n",
		"archive: nightly-1 in repository feed, after older-1\n",
		"read: 8 TiB: 1 TiB zeros, 4 TiB unchanged, 1 TiB repeated, 2 TiB stored in 1 TiB; not read as free: 1 GiB\n",
		"audit: 3 GiB are free by the file systems, 1 GiB of them not zeros; all of it was read\n",
		"free blocks unknown: store 2 data: no ext4\n",
		"requests: 1,234 lists and 16,777,216 reads of blocks, 3 of them throttled; 32768 packs; 6.40 USD\n",
		"slowest volume: store 1 data, 8 TiB in 1h00m00s\n",
	} {
		require.Contains(t, b.String(), line)
	}
	require.NotContains(t, b.String(), "not run", "a backup's phases are none of it")
	require.NotContains(t, b.String(), "published")
}

// A backup's phases are none of an archive's, a copy's or a drill's.
func TestPublishedPhases_OfBackupsAndRestores(t *testing.T) {
	t.Parallel()
	for _, op := range []report.Operation{report.Archive, report.Copy, report.Drill} {
		require.Empty(t, report.PublishedPhases(op), op)
	}
	require.NotEmpty(t, report.PublishedPhases(report.Backup))
}

// What is so of all volumes is one clause, however many there are.
func TestFreeUnknown_EachReasonOnce(t *testing.T) {
	t.Parallel()
	volumes := []report.ArchivedVolume{{Store: 1, Role: "data"}, {Store: 4, Role: "log", FreeUnknown: "it is mounted"}}
	for i := range 300 {
		volumes = append(volumes, report.ArchivedVolume{Store: cluster.StoreID(i), Role: "data", FreeUnknown: "no ext4"})
	}
	require.Equal(t, []string{"store 4 log: it is mounted", "300 of 302 volumes: no ext4"}, report.FreeUnknown(volumes))
}

func TestTable_ArchiveReadNothing_IsShown(t *testing.T) {
	t.Parallel()
	cost := 0.001
	r := archive(&report.Archived{
		Repository: "feed", Archive: "nightly-2", RequestsUSD: &cost, Volumes: []report.ArchivedVolume{{Store: 1, Seconds: 1}},
	})
	var b bytes.Buffer
	require.NoError(t, r.Table(&b, report.TableOptions{}))
	require.Contains(t, b.String(), "read: nothing\nrequests: 0 lists and 0 reads of blocks; 0 packs; <0.01 USD\nrun r1\n")
}

// Names come from the storage: as Markdown they must stay text.
func TestMarkdown_ArchiveWithHostileNames_IsEscaped(t *testing.T) {
	t.Parallel()
	r := archive(&report.Archived{
		Repository: "*r*", Archive: "<b>", Base: "[x](y)", Volumes: []report.ArchivedVolume{
			{Store: 1, Role: "<i>", FreeUnknown: "<u>", ArchivedBytes: report.ArchivedBytes{ReadBytes: 1}, Seconds: 1},
		},
	})
	var b bytes.Buffer
	require.NoError(t, r.Markdown(&b, report.TableOptions{}))
	for _, raw := range []string{"<b>", "<i>", "<u>", "[x](y)", " *r*"} {
		require.NotContains(t, b.String(), raw)
	}
}
