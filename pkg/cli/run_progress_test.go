package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runs"
)

// A live run's status shows how far it is; a run that is over, or seems dead, has no progress.
func TestStatus_OfALiveRun_ShowsItsProgress(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	r := runs.Run{
		ID: "r", Operation: journal.Backup, State: runs.Running, Step: journal.StepCut, Started: at,
		Processes: []phase.Process{{Start: at, End: at.Add(time.Minute), Step: journal.StepCut}},
		History: &phase.History{Records: []phase.Record{
			{Type: phase.RecordResult, Name: journal.ResultExpected, Data: []byte(`{"model":"m","seconds":300,"lowSeconds":200,"highSeconds":400}`), Time: at},
			{Type: phase.RecordBegin, Step: journal.StepCut, Time: at.Add(time.Minute)},
		}},
	}
	show := func(r runs.Run, after time.Duration) string {
		var out strings.Builder
		require.NoError(t, newRunDoc(&r, at.Add(after)).table(&out, view{}))
		return out.String()
	}
	text := show(r, 100*time.Second)
	require.Contains(t, text, "running for 1m40s; phase volume snapshots; step cut for 40s")
	require.Contains(t, text, "expected duration: 5m00s (3m20s to 6m40s), by m; ends at about 2026-01-01 12:05:00 UTC")
	require.Regexp(t, `(?m)^1 +2026-01-01 12:00:00 +running `, text)
	require.Contains(t, show(r, 500*time.Second), "it takes longer")
	r.Silent, r.RenewedAt = true, &at
	require.NotContains(t, show(r, time.Minute), "running for")
	r.Silent, r.State = false, runs.Done
	require.NotContains(t, show(r, time.Minute), "running")
}

// A backup's name is as good as its run's id.
func TestRunOf_TakesTheNameOfABackup(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	appendRecord(t, store, phase.Record{Seq: 1, Type: phase.RecordRun, Data: []byte(`{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":"b"}`)})
	require.NoError(t, catalog.Catalog{Store: store}.Claim(t.Context(), catalog.Claim{ID: "b", Run: "r", Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}}))
	for _, name := range []string{"b", "r"} {
		r, err := runOf(t.Context(), store, name)
		require.NoError(t, err)
		require.Equal(t, cluster.RunID("r"), r.ID)
		_, err = catalog.Catalog{Store: store}.Load(t.Context(), cluster.BackupID(name))
		err = noBackup(t.Context(), store, cluster.BackupID(name), err)
		require.Contains(t, failure.HintOf(err), "tisnap status "+name)
		require.NotContains(t, failure.HintOf(err), "tisnap list")
	}
	_, err := runOf(t.Context(), store, "neither")
	require.Equal(t, failure.NotFound, failure.KindOf(err))
}
