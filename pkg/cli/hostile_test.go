package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/lockset"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
)

// documentsWith are what commands print of a storage in which someone has written the text wherever one is.
func documentsWith(text string) map[string]document {
	at := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	name := cluster.Name{Namespace: text, Name: text}
	run := runs.Run{
		ID: cluster.RunID(text), Cluster: name, Backup: cluster.BackupID(text), Step: text, Error: text, Owner: text, Until: &at,
		State: runs.Unfinished, ResolvedBy: cluster.RunID(text), Processes: []phase.Process{{Step: text}},
	}
	return map[string]document{
		"list": &listDoc{now: at, Items: []listItem{{Entry: catalog.Entry{
			ID: cluster.BackupID(text), Cluster: name, State: catalog.StateDamaged, Version: text, Run: cluster.RunID(text),
			Tags: []string{text}, Problem: text, CreatedAt: at,
		}, Pin: &manifest.Pin{Reason: text, Until: at}}}},
		"pin": newPinDoc(true, cluster.BackupID(text), &manifest.Pin{Reason: text}),
		"lock": newLockSetDoc("BackupLock", true, cluster.BackupID(text), &lockset.Report{Items: []lockset.Item{{
			Snapshot: cluster.SnapshotID(text), Role: cluster.Role(text), Mode: text, Error: text,
		}}}),
		"unpin": &pinDoc{Backup: cluster.BackupID(text), was: &manifest.Pin{Reason: text}},
		"describe": &describeDoc{
			Backup: cluster.BackupID(text), Cluster: name, Version: text, Region: text, EC2: ec2Facts{Unknown: text}, Pin: &manifest.Pin{Reason: text},
			Snapshots: []manifest.Snapshot{{ID: cluster.SnapshotID(text), Volume: cluster.VolumeID(text), Zone: cluster.Zone(text)}},
		},
		"report --since": newTrendReport(&history.Trend{Since: at, Unreadable: []string{text}, Series: []history.Series{{
			Operation: report.Operation(text), Cluster: name, Failed: map[string]int{text: 1}, Slower: []history.Slower{{Phase: text}},
			Points: []history.Point{{Run: cluster.RunID(text), Backup: cluster.BackupID(text), Started: at, Outcome: phase.Outcome(text)}},
		}}}),
		"runs list":     &runsDoc{now: at, Items: []runs.Run{run}},
		"runs describe": &runDoc{Run: run},
		"prune": newPruneDoc(true, &gc.BackupsReport{Backups: []gc.BackupOutcome{{
			ID: cluster.BackupID(text), Cluster: text, Tags: []string{text}, Reason: text,
		}}}),
	}
}

// A name in the storage clears no terminal, moves no cursor and begins no line of its own.
func TestWrite_HostileNames_DoNothingInATerminal(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b[2Jx\r\nerror: all is lost\u202e\u009b31m\x00\x07"
	harmless := documentsWith("x")
	for name, d := range documentsWith(hostile) {
		for _, output := range []string{"table", "wide", "jsonpath={.items[*].tags}"} {
			t.Run(name+" "+output, func(t *testing.T) {
				t.Parallel()
				var got, want bytes.Buffer
				require.NoError(t, write(&got, output, d, view{wide: output == "wide"}))
				require.NoError(t, write(&want, output, harmless[name], view{wide: output == "wide"}))
				require.NotContains(t, strings.Map(func(r rune) rune {
					if strings.ContainsRune("\x1b\r\u202e\u009b\x00\x07", r) {
						return '!'
					}
					return r
				}, got.String()), "!")
				if output != "table" && output != "wide" {
					return // it may have line breaks of its own
				}
				require.Equal(t, strings.Count(want.String(), "\n"), strings.Count(got.String(), "\n"), got.String())
			})
		}
	}
}

// A name of ten thousand letters is cut, wherever a table shows it.
func TestWrite_LongNames_AreCut(t *testing.T) {
	t.Parallel()
	for name, d := range documentsWith(strings.Repeat("long-", 2000)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			require.NoError(t, write(&out, "table", d, view{}))
			require.Contains(t, out.String(), "long-long-")
			require.NotContains(t, out.String(), strings.Repeat("long-", 500))
		})
	}
}

func TestPrintError_HostileText_DoesNothingInATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{streams: Streams{Err: &out}}
	a.printError(errors.New("no \x1b[2J\u202ename\nat all"), 1)
	require.Equal(t, "error: no [2Jname; at all\n", out.String())
}
