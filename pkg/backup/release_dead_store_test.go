package backup_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// heldAt writes what a run leaves in storage that began its hold that long ago and died.
func (r *rig) heldAt(t *testing.T, run cluster.RunID, ago time.Duration, then ...phase.Record) {
	t.Helper()
	about, err := json.Marshal(journal.About{Operation: journal.Backup, Cluster: prod, Backup: "b", Tool: "test"})
	require.NoError(t, err)
	records := append([]phase.Record{{Type: phase.RecordRun, Data: about}, {Type: phase.RecordBegin, Step: journal.StepHold}}, then...)
	for i, record := range records {
		record.Seq, record.Run, record.Time = i+1, run, time.Now().Add(-ago)
		require.NoError(t, journal.NewStoreJournal(r.store, manifest.JournalPrefix(run)).Append(t.Context(), record))
	}
}

// A store that is dead for good must not keep `tisnap release` from its end once the journals prove that all has
// expired there, and only then.
func TestRelease_StoreDeadForGood_IsHeldUntilTheJournalsProveItExpired(t *testing.T) {
	t.Parallel()
	leases := phase.Record{Type: phase.RecordIntent, Step: journal.StepHold, Name: journal.IntentLeases, Data: json.RawMessage(`{"leaseSeconds":30,"maxHoldSeconds":120}`)}
	for name, row := range map[string]struct {
		died  func(t *testing.T, r *rig)
		force bool
		held  bool
	}{
		"it died long ago":              {died: func(t *testing.T, r *rig) { t.Helper(); r.heldAt(t, "dead", time.Hour, leases) }},
		"it died a moment ago":          {died: func(t *testing.T, r *rig) { t.Helper(); r.heldAt(t, "dead", 0, leases) }, held: true},
		"within what clocks may be off": {died: func(t *testing.T, r *rig) { t.Helper(); r.heldAt(t, "dead", 20*time.Minute, leases) }, held: true},
		"of an older version":           {died: func(t *testing.T, r *rig) { t.Helper(); r.heldAt(t, "dead", time.Hour) }, held: true},
		"the younger of two counts": {died: func(t *testing.T, r *rig) {
			t.Helper()
			r.heldAt(t, "a", 0, leases)
			r.heldAt(t, "b", time.Hour, leases)
		}, held: true},
		"one that was released is no dead": {died: func(t *testing.T, r *rig) {
			t.Helper()
			r.heldAt(t, "a", 0, leases, phase.Record{Type: phase.RecordUndone, Step: journal.StepHold})
		}},
		"no run held it": {died: func(t *testing.T, r *rig) {
			t.Helper()
			r.heldAt(t, "old", 48*time.Hour, leases, phase.Record{Type: phase.RecordDone, Step: journal.StepRelease})
		}},
		"a storage without any run may be the wrong one": {died: func(*testing.T, *rig) {}, held: true},
		"forced": {died: func(t *testing.T, r *rig) { t.Helper(); r.heldAt(t, "dead", time.Hour, leases) }, force: true, held: true},
		"a journal that cannot be read": {died: func(t *testing.T, r *rig) {
			t.Helper()
			_, err := r.store.Create(t.Context(), manifest.JournalKey("torn", 1), []byte("{"))
			require.NoError(t, err)
		}, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			row.died(t, r)
			store := r.c.Stores()[1].ID()
			r.fault(t, fault.Rule{Point: fmt.Sprintf("tikv.%d.*", store), Code: "Unavailable", Times: -1})
			done, err := backup.Release(t.Context(), r.store, r.deps.PD, r.tikv, backup.ReleaseOptions{Cluster: prod, Force: row.force})
			if row.held {
				require.Equal(t, failure.Held, failure.KindOf(err), "%v", err)
				require.Empty(t, done.Unreached)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []cluster.StoreID{cluster.StoreID(store)}, done.Unreached)
		})
	}
}
