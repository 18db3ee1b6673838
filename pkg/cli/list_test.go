package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// An unsealed backup whose run works is not one whose run died or failed.
func TestList_UnsealedBackups_ShowTheirRuns(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	store, err := objstore.Open(t.Context(), url, objstore.Config{})
	require.NoError(t, err)
	for _, id := range []string{"running", "dead", "failed", "unsealed"} {
		name := cluster.Name{Namespace: "tidb", Name: id}
		require.NoError(t, catalog.Catalog{Store: store}.Claim(t.Context(), catalog.Claim{
			ID: cluster.BackupID(id), Run: cluster.RunID(id), Cluster: name, ClaimedAt: time.Now(),
		}))
		if id == "unsealed" {
			continue // it has no journal
		}
		j := journal.NewStoreJournal(store, manifest.JournalPrefix(cluster.RunID(id)))
		require.NoError(t, j.Append(t.Context(), phase.Record{
			Seq: 1, Run: cluster.RunID(id), Time: time.Now(), Type: phase.RecordRun,
			Data: []byte(`{"operation":"backup","cluster":{"namespace":"tidb","name":"` + id + `"},"backup":"` + id + `"}`),
		}))
		switch id {
		case "running":
			_, err := runlock.Acquire(t.Context(), store, name, runlock.Owner{Run: cluster.RunID(id)}, time.Minute)
			require.NoError(t, err)
		case "dead":
			require.NoError(t, j.Append(t.Context(),
				phase.Record{Seq: 2, Run: cluster.RunID(id), Time: time.Now(), Type: phase.RecordDone, Step: journal.StepLock}))
		case "failed":
			require.NoError(t, j.Append(t.Context(),
				phase.Record{Seq: 2, Run: cluster.RunID(id), Time: time.Now(), Type: phase.RecordEnd, Error: "no"}))
		}
	}
	code, out, stderr := run(t, "list", "--storage", url)
	require.Equal(t, ExitDone, code, stderr)
	for _, id := range []string{"running", "dead", "failed", "unsealed"} {
		require.Regexp(t, id+` +tidb/`+id+` +`+id+` `, out)
	}
	_, out, _ = run(t, "list", "--storage", url, "-o", "jsonpath={.items[*].state} {.items[*].runState}")
	require.Equal(t, 4, strings.Count(out, "unsealed"), "scripts get the states that they know: %s", out)
	require.Contains(t, out, "unfinished")
}

// A run that died has no report: where it is listed, it is not called unknown.
func TestReport_RunWithoutReport_LeadsToItsStatus(t *testing.T) {
	t.Parallel()
	url := "file://" + t.TempDir()
	store, err := objstore.Open(t.Context(), url, objstore.Config{})
	require.NoError(t, err)
	require.NoError(t, journal.NewStoreJournal(store, manifest.JournalPrefix("r1")).Append(t.Context(), phase.Record{
		Seq: 1, Run: "r1", Time: time.Now(), Type: phase.RecordRun,
		Data: []byte(`{"operation":"restore","cluster":{"namespace":"tidb","name":"copy"},"backup":"b"}`),
	}))
	for name, want := range map[string]string{"r1": "hint: see how far its run is with: tisnap status r1\n", "r2": "no such backup or run in "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, stderr := run(t, "report", name, "--storage", url)
			require.Equal(t, ExitCode(4), code)
			require.Empty(t, out)
			require.Contains(t, stderr, want)
		})
	}
}

// Times are in UTC, and in the local zone on request; the heading shows which.
func TestView_Times(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.FixedZone("X", 3600))
	require.Equal(t, "2026-11-22 09:00:00", view{}.cell(at))
	require.Equal(t, at.Local().Format(time.DateTime), view{local: true}.cell(at))
	require.Equal(t, "STARTED (LOCAL)", view{local: true}.heading("STARTED"))
	code, out, stderr := run(t, "list", "--local", "--storage", "file://"+t.TempDir())
	require.Equal(t, ExitDone, code, stderr)
	require.Equal(t, "no backups\n", out)
}

func TestView_Local_IsTheZoneOfThisMachine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 26, 1, 0, 0, 0, time.FixedZone("far", 5*3600))
	require.Same(t, time.Local, view{local: true}.in(at).Location())
	require.Equal(t, "BACKUP TIME (LOCAL)", view{local: true}.heading("BACKUP TIME"))
	require.Equal(t, "2026-11-25 20:00:00", view{}.cell(at))
	require.Equal(t, "BACKUP TIME (UTC)", view{}.heading("BACKUP TIME"))
}
