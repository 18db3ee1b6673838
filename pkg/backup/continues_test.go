package backup_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// written is a journal with these records.
type written []phase.Record

func (w written) Append(context.Context, phase.Record) error { return nil }

func (w written) Records(context.Context) ([]phase.Record, error) { return w, nil }

// Only a run of the same document whose cut is proven is continued: a Backup that is made again has a document of its own, and
// must not get the snapshots of an earlier one.
func TestContinues_OnlyTheSameBackupWithAProvenCut(t *testing.T) {
	t.Parallel()
	o := backup.Options{Cluster: prod, Backup: "br-run-1", Run: "run-1", ClusterMeta: json.RawMessage(`{"tikv":{}}`)}
	about, err := json.Marshal(journal.About{Operation: journal.Backup, Cluster: o.Cluster, Backup: o.Backup, Request: o.Request(), ClusterID: 7})
	require.NoError(t, err)
	begun := []phase.Record{{Type: phase.RecordRun, Data: about}, {Type: phase.RecordBegin, Step: journal.StepRelease}}
	proven := append(begun[:2:2], phase.Record{Type: phase.RecordDone, Step: journal.StepRelease})
	other := o
	other.ClusterMeta = json.RawMessage(`{"tikv":{ }}`)
	for name, c := range map[string]struct {
		records []phase.Record
		opts    backup.Options
		want    bool
	}{
		"proven":                      {proven, o, true},
		"of another document":         {proven, other, false},
		"of no document":              {proven, backup.Options{Cluster: o.Cluster, Backup: o.Backup, Run: o.Run}, false},
		"not proven":                  {begun, o, false},
		"a run that ended":            {append(proven[:3:3], phase.Record{Type: phase.RecordEnd}), o, false},
		"a run that was being undone": {append(proven[:3:3], phase.Record{Type: phase.RecordUndo, Step: journal.StepRecord}), o, false},
		"nothing":                     {nil, o, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, err := phase.ReadHistory(t.Context(), written(c.records))
			require.NoError(t, err)
			require.Equal(t, c.want, backup.Continues(h, c.opts, 7))
			require.False(t, backup.Continues(h, c.opts, 8), "it is of another cluster of the same name")
		})
	}
}
