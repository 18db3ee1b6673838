package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// undone is an EC2 right after other runs failed, each with its cut: it shows shown snapshots in progress of one volume.
type undone struct {
	backup.EBS
	shown int
	fail  func(context.Context) error
	polls atomic.Int64
}

func (e *undone) SnapshotsInProgress(ctx context.Context, ids []cluster.VolumeID) (map[cluster.VolumeID]int, error) {
	if e.polls.Add(1) == 2 { // preflight has asked before
		if err := e.fail(ctx); err != nil {
			return nil, err
		}
	}
	return map[cluster.VolumeID]int{ids[0]: e.shown}, nil
}

// Point 35: snapshots that failed runs deleted while they were in progress count against the five of a volume, and EC2 shows
// none of them. They are known by the runs' journals, and waited for before the hold.
func TestFiveSetsWereDeletedInProgress_WaitsBeforeTheHold(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		runs, cuts int // so many runs with so many attempts
		age        time.Duration
		sealed     bool
		shown      int
		waits      bool
	}{
		"five runs":                     {runs: 5, cuts: 1, waits: true},
		"two runs of three attempts":    {runs: 2, cuts: 3, waits: true},
		"four runs":                     {runs: 4, cuts: 1},
		"four runs and one shown":       {runs: 4, cuts: 1, shown: 1, waits: true},
		"four shown":                    {shown: 4},
		"five runs that were completed": {runs: 5, cuts: 1, sealed: true},
		"five runs long ago":            {runs: 5, cuts: 1, age: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			o := r.options()
			o.PendingTimeout = 3 * time.Second // no longer than that is waited for
			r.deps.EBS = &undone{EBS: r.deps.EBS, shown: row.shown, fail: func(ctx context.Context) error {
				for i := range row.runs {
					if err := r.journalOf(ctx, o, cluster.RunID(fmt.Sprintf("earlier-%d", i)), row.cuts, time.Now().Add(-row.age), row.sealed); err != nil {
						return err
					}
				}
				return nil
			}}
			_, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			r.requireSealed(t, o)
			messages := strings.Join(r.events.texts(), "\n")
			require.Equal(t, row.waits, strings.Contains(messages, "sets of the volumes' snapshots were deleted"), messages)
		})
	}
}

// journalOf writes the journal of another run of the options' cluster, which has cut at a time, so many times.
func (r *rig) journalOf(ctx context.Context, o backup.Options, run cluster.RunID, cuts int, at time.Time, sealed bool) error {
	about, err := json.Marshal(journal.About{Operation: journal.Backup, Cluster: o.Cluster})
	if err != nil {
		return err
	}
	records := []phase.Record{{Type: phase.RecordRun, Data: about}}
	for range cuts {
		records = append(records,
			phase.Record{Type: phase.RecordIntent, Step: journal.StepCut, Name: journal.IntentCreateSnapshots, Data: json.RawMessage("{}")},
			phase.Record{Type: phase.RecordFailed, Step: journal.StepCut})
	}
	if sealed {
		records = append(records, phase.Record{Type: phase.RecordDone, Step: journal.StepSeal})
	}
	j := journal.NewStoreJournal(r.store, manifest.JournalPrefix(run))
	for i, record := range records {
		record.Seq, record.Time, record.Run = i+1, at, run
		if err := j.Append(ctx, record); err != nil {
			return err
		}
	}
	return nil
}
