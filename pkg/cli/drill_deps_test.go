package cli

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
)

// The same command plans a drill again while what a dead process of it left is still there.
func TestUncaged_WhatADeadDrillLeft_IsNotThere(t *testing.T) {
	t.Parallel()
	_, err := uncaged{}.Cluster(t.Context(), cluster.Name{Namespace: "tisnap-drill-1", Name: "prod"})
	require.Equal(t, failure.NotFound, failure.KindOf(err))
	claims, err := uncaged{}.Claims(t.Context(), cluster.Name{})
	require.NoError(t, err)
	require.Empty(t, claims)
}

var picked = cluster.Name{Namespace: "tidb", Name: "prod"}

// backupsToPick is a storage with three backups of a cluster, whose names are in another order than their times, and an
// older one of another cluster.
func backupsToPick(t *testing.T) objstore.Store {
	t.Helper()
	store, at := objstoretest.NewMemory(nil), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := exportertest.New(t.Context(), store)
	s.Sealed("newest", picked, "r3", at.Add(72*time.Hour))
	s.Sealed("oldest", picked, "r1", at.Add(24*time.Hour))
	s.Sealed("middle", picked, "r2", at.Add(48*time.Hour))
	s.Sealed("another", cluster.Name{Namespace: "tidb", Name: "copy"}, "r0", at)
	require.NoError(t, s.Err())
	return store
}

// ranFor is a run of an operation on a backup, which ended after so many hours.
type ranFor struct {
	op     journal.Operation
	backup cluster.BackupID
	hours  int
	err    string // "" if it passed
	died   bool
}

func (r ranFor) write(t *testing.T, store objstore.Store, id cluster.RunID) {
	t.Helper()
	about, err := json.Marshal(journal.About{Operation: r.op, Cluster: picked, Backup: r.backup})
	require.NoError(t, err)
	records := []phase.Record{{Type: phase.RecordRun, Data: about}, {Type: phase.RecordDone, Step: journal.StepLock}}
	if !r.died {
		records = append(records, phase.Record{Type: phase.RecordEnd, Error: r.err})
	}
	j := journal.NewStoreJournal(store, manifest.JournalPrefix(id))
	for i, record := range records {
		record.Seq, record.Run = i+1, id
		record.Time = time.Date(2026, 11, 20, r.hours, 0, 0, 0, time.UTC)
		require.NoError(t, j.Append(t.Context(), record))
	}
}

func TestPick_OldestUndrilled(t *testing.T) {
	t.Parallel()
	passed := func(backup cluster.BackupID, hours int) ranFor {
		return ranFor{op: journal.Drill, backup: backup, hours: hours}
	}
	for name, row := range map[string]struct {
		runs []ranFor
		want cluster.BackupID
	}{
		"none passed":          {nil, "oldest"},
		"the oldest passed":    {[]ranFor{passed("oldest", 1)}, "middle"},
		"the newest passed":    {[]ranFor{passed("newest", 1)}, "oldest"},
		"all passed":           {[]ranFor{passed("newest", 2), passed("oldest", 3), passed("middle", 1)}, "middle"},
		"one passed again":     {[]ranFor{passed("middle", 1), passed("newest", 2), passed("oldest", 3), passed("middle", 4)}, "newest"},
		"the oldest failed":    {[]ranFor{{op: journal.Drill, backup: "oldest", err: "inconsistent"}}, "oldest"},
		"its drill died":       {[]ranFor{{op: journal.Drill, backup: "oldest", died: true}}, "oldest"},
		"it was restored":      {[]ranFor{{op: journal.Restore, backup: "oldest"}}, "oldest"},
		"another's is drilled": {[]ranFor{passed("another", 1)}, "oldest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := backupsToPick(t)
			for i, r := range row.runs {
				r.write(t, store, cluster.RunID("drill-"+string(rune('a'+i))))
			}
			d := &drillWork{Deps: drill.Deps{Store: store}}
			got, err := d.pick(t.Context(), picked, pickUndrilled, 0)
			require.NoError(t, err)
			require.Equal(t, row.want, got)
			got, err = d.pick(t.Context(), picked, pickLatest, 0)
			require.NoError(t, err)
			require.EqualValues(t, "newest", got, "whatever was drilled")
		})
	}
}

func TestPick_Random_FollowsItsSeedAndTakesEach(t *testing.T) {
	t.Parallel()
	d := &drillWork{Deps: drill.Deps{Store: backupsToPick(t)}}
	times := map[cluster.BackupID]int{}
	for seed := range uint64(60) {
		first, err := d.pick(t.Context(), picked, pickRandom, seed)
		require.NoError(t, err)
		again, err := d.pick(t.Context(), picked, pickRandom, seed)
		require.NoError(t, err)
		require.Equal(t, first, again)
		times[first]++
	}
	require.Len(t, times, 3, "of its cluster")
	for id, n := range times {
		require.Greater(t, n, 10, id)
	}
}

func TestPick_NoSealedBackup_NotFound(t *testing.T) {
	t.Parallel()
	d := &drillWork{Deps: drill.Deps{Store: backupsToPick(t)}}
	_, err := d.pick(t.Context(), cluster.Name{Namespace: "tidb", Name: "none"}, pickRandom, 0)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

// gcAt is a PD whose GC is at a timestamp, and passes on once meanwhile.
type gcAt struct {
	restore.PD
	at, next cluster.TS
	held     []cluster.TS
}

func (p *gcAt) HoldGC(_ context.Context, _ string, ts cluster.TS, _ time.Duration) (cluster.TS, error) {
	lowest := min(p.at, ts)
	if ts < p.at {
		lowest, p.at = p.at, p.next
	} else {
		p.held = append(p.held, ts)
	}
	return lowest, nil
}

// PD ignores a hold behind GC: what the checks read is held where GC is.
func TestHoldGC_GCHasPassedTheBackup_HeldWhereItIs(t *testing.T) {
	t.Parallel()
	for gc, held := range map[cluster.TS]cluster.TS{90: 100, 100: 100, 110: 120} {
		t.Run(gc.String(), func(t *testing.T) {
			t.Parallel()
			pd := &gcAt{at: gc, next: 120}
			d := &drillWork{pd: pd, manifest: &manifest.Manifest{BackupTS: 100}}
			require.NoError(t, d.holdGC(t.Context(), picked, "r", time.Hour))
			require.Equal(t, []cluster.TS{held}, pd.held)
		})
	}
}
