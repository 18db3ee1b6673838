package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// The retry of the same night continues a backup that died; the next night's takes a new one, as nobody would look for
// last night's data in it.
func TestContinued_BackupOfTheNightBefore_IsNotContinuedUnasked(t *testing.T) {
	t.Parallel()
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	for text, row := range map[string]struct {
		age       time.Duration
		operation journal.Operation
		chosen    string
		want      bool
	}{
		"the same night":      {10 * time.Minute, journal.Backup, "", true},
		"the night after":     {24 * time.Hour, journal.Backup, "", false},
		"asked for":           {24 * time.Hour, journal.Backup, "dead", true},
		"a restore of a week": {24 * time.Hour, journal.Restore, "", true},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			about := journal.About{Operation: row.operation, Cluster: name, Backup: "b"}
			j := phase.NewStoreJournal(store, manifest.JournalPrefix("dead"))
			require.NoError(t, j.Append(t.Context(), phase.Record{
				Seq: 1, Run: "dead", Time: time.Now().Add(-row.age), Type: phase.RecordRun,
				Data: []byte(`{"operation":"` + string(row.operation) + `","cluster":{"namespace":"tidb","name":"prod"},"backup":"b","request":{"tag":""}}`),
			}))
			lock, err := runlock.Acquire(t.Context(), store, name, runlock.Owner{Run: "dead"}, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			id, _, err := continued(t.Context(), store, zap.NewNop(), row.chosen, about)
			require.NoError(t, err)
			require.Equal(t, row.want, id == "dead", id)
		})
	}
}
