package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/lockset"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/runs"
)

// What is too wide for a terminal loses columns, in order, and wraps no line.
func TestTable_DropsColumnsUntilItIsNarrow(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 38)
	tab := newTable("A", "B", "C", "D")
	tab.drop, tab.more = []string{"B", "A"}, []string{"D"}
	tab.row("a", "b", long, "d")
	show := func(v view) string {
		var out bytes.Buffer
		require.NoError(t, tab.write(&out, v))
		return strings.Fields(out.String())[0] + strings.Fields(out.String())[1]
	}
	require.Equal(t, "AB", show(view{}), "it fits")
	tab.row("a", long, long, "d")
	require.Equal(t, "AC", show(view{}))
	var wide bytes.Buffer
	require.NoError(t, tab.write(&wide, view{wide: true}))
	require.Equal(t, []string{"A", "B", "C", "D"}, strings.Fields(wide.String())[:4])
}

// Names as users choose them leave every list within a terminal, with what happened and to what.
func TestLists_FitATerminal(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	of := cluster.Name{Namespace: "tidb-production", Name: "prod-eu-west-1"}
	const id, run = "prod-eu-west-1-20261122-100000", "20261122t100000-1a2b3c4d"
	for name, c := range map[string]struct {
		doc  document
		want []string
	}{
		"list":       {&listDoc{now: at, Items: []listItem{{Entry: catalog.Entry{ID: id, Cluster: of, State: catalog.StateUnsealed, Run: run, BackupTS: cluster.MakeTS(at, 0), SizeGiB: 60000, Stores: 20, Snapshots: 40, CreatedAt: at}, RunState: runs.Unfinished}}}, []string{"2026-11-22 10:00:00", "BACKUP TIME (UTC)", id, "dead"}},
		"runs list":  {&runsDoc{now: at, Items: []runs.Run{{ID: run, Operation: "restore", Cluster: of, Backup: id, State: runs.Failed, Step: "await-snapshots", Started: at, Last: at}}}, []string{"2026-11-22 10:00:00", run, "restore", "failed"}},
		"prune":      {newPruneDoc(true, &gc.BackupsReport{Backups: []gc.BackupOutcome{{ID: id, Cluster: of.String(), CreatedAt: at, Tags: []string{"release-8.5"}, SizeGiB: 60000, Action: gc.ActionDelete, Reason: "no rule keeps it"}}}), []string{id, "delete", "no rule keeps it"}},
		"describe":   {&describeDoc{Backup: id, Cluster: of, Version: "8.5.0", Region: "eu-west-1", Snapshots: []manifest.Snapshot{{Store: 1, Role: "storage.data-dir", ID: "snap-0123456789abcdef0", Volume: "vol-0123456789abcdef0", Zone: "eu-west-1a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 3072}}}}, []string{"snap-0123456789abcdef0", "3072"}},
		"drill list": {&drillListDoc{Items: []drillItem{{Run: run, Cluster: of, Backup: id, State: runs.Unfinished, Started: at, Left: true}}}, []string{run, "maybe", "removed by: tisnap drill clean"}},
		"archive plan": {&archivePlanDoc{Backup: id, Cluster: of, Items: []plannedArchiveItem{
			{Store: 1000001, Role: "storage.data-dir", Snapshot: "snap-0123456789abcdef0", Compared: "snapshot", FreeUnknown: "no ext4"},
			{Store: 1000001, Role: "raft-engine.dir", Snapshot: "snap-0123456789abcdef1", Compared: "snapshot", FreeUnknown: "no ext4"},
			{Store: 1000002, Role: "storage.data-dir", Snapshot: "snap-0123456789abcdef2", Compared: "snapshot", ReadBytes: 1 << 40, FreeBytes: 1 << 40},
		}}, []string{"1000001", "\nfree blocks are unknown of 2 of 3 volumes: no ext4\n"}},
		"archive list": {&archiveListDoc{now: at, Items: []archiveItem{{ID: id + "-1a2b3c4d", archiveSummary: &archiveSummary{Backup: id, Cluster: of.String(), Created: at, Size: 6e13, Data: 5e13}}}}, []string{id + "-1a2b3c4d"}},
		"copy plan":    {&copyPlanDoc{Backup: id, Cluster: of, Items: []plannedCopyItem{{Snapshot: "snap-0123456789abcdef0", Volume: "vol-0123456789abcdef0", DataBytes: 1 << 40, Full: "no copy of the volume is in the target yet, whose name is long, and longer than that"}}}, []string{"in full: no copy", "…"}},
		"lock":         {newLockSetDoc("BackupLock", false, id, &lockset.Report{Items: []lockset.Item{{Store: 1000001, Role: "storage.data-dir", Snapshot: "snap-0123456789abcdef0", Action: lockset.ActionLocked, Mode: "compliance-cooloff", ExpiresAt: at}}}), []string{"snap-0123456789abcdef0", "2026-11-22 10:00:00"}},
		"gc": {newGCDoc("GarbageReport", true, &gc.Report{Items: []gc.Item{{Kind: "snapshot", ID: "snap-0123456789abcdef0", Run: run, Backup: id, Cluster: of.String(), Action: gc.ActionKeep, Reason: "it is of a backup whose run has not ended, and whose lock is renewed by its owner"}}}),
			[]string{"snap-0123456789abcdef0", "it is of a backup"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, write(&out, "table", c.doc, view{}))
			for line := range strings.Lines(out.String()) {
				if !strings.HasPrefix(line, "would ") && !strings.HasPrefix(line, "at most ") { // a sentence
					require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
				}
			}
			for _, want := range c.want {
				require.Contains(t, out.String(), want)
			}
		})
	}
}

func TestTable_AlignsAndNamesEmptyCells(t *testing.T) {
	t.Parallel()
	tab := newTable("NAME", "AGE")
	tab.row("prod-1", "")
	tab.row("a", 7)
	var out bytes.Buffer
	require.NoError(t, tab.write(&out, view{}))
	require.Equal(t, "NAME    AGE\nprod-1  -\na       7\n", out.String())
	require.Error(t, tab.write(broken{}, view{}))
}
