package fleet_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fleet"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

var prod = cluster.Name{Namespace: "tidb", Name: "prod"}

// read fills a storage and reads it.
func read(t *testing.T, now time.Time, fill func(*exportertest.Storage, objstore.Store)) *fleet.State {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	fill(s, store)
	require.NoError(t, s.Err())
	state, err := fleet.Open(store, history.Open(store)).Read(t.Context(), now)
	require.NoError(t, err)
	return state
}

// backedUp adds a sealed backup with its report.
func backedUp(s *exportertest.Storage, i int, at time.Time) {
	id, run := cluster.BackupID(fmt.Sprint("b", i)), cluster.RunID(fmt.Sprint("r", i))
	s.Sealed(id, prod, run, at)
	s.Report(exportertest.Backup(id, prod, run, at, 600, 3))
}

// The next backup is expected after the usual gap, if there were enough to have one, and is overdue a quarter later.
func TestExpected_MedianOfTheLastGaps(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	hours := func(ages ...float64) []float64 { return ages }
	for name, row := range map[string]struct {
		ages    []float64 // of the backups, in hours
		due     float64   // in how many hours the next one is; 0 for unknown
		overdue bool
	}{
		"two":                       {ages: hours(30, 6)},
		"three":                     {ages: hours(54, 30, 6), due: 18},
		"one by hand between":       {ages: hours(78, 54, 30, 29, 6), due: 17.5},
		"a little late":             {ages: hours(77, 53, 29), due: -5},
		"late":                      {ages: hours(79, 55, 31), due: -7, overdue: true},
		"every hour since not long": {ages: hours(300, 200, 10.5, 9.5, 8.5, 7.5, 6.5, 5.5, 4.5, 3.5, 2.5, 1.5, .5), due: .5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := read(t, now, func(s *exportertest.Storage, _ objstore.Store) {
				for i, age := range row.ages {
					backedUp(s, i, now.Add(-time.Duration(age*float64(time.Hour))))
				}
			}).Clusters[prod]
			if row.due == 0 {
				require.Zero(t, c.Expected())
			} else {
				require.InDelta(t, row.due, c.Expected().Sub(now).Hours(), 0.001)
			}
			require.Equal(t, row.overdue, c.Overdue(now))
		})
	}
}

func TestOverdue_BackupRuns_IsNot(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := read(t, now, func(s *exportertest.Storage, _ objstore.Store) {
		for i := range 3 {
			backedUp(s, i, now.Add(-time.Duration(80-i)*time.Hour))
		}
		s.Lock(prod, "now", now, false)
	}).Clusters[prod]
	require.True(t, c.Expected().Before(now))
	require.False(t, c.Overdue(now))
}

// Failures count since the last good backup, and those of a cluster that is only restored are restores.
func TestFailures_SinceTheLastGoodOne(t *testing.T) {
	t.Parallel()
	now := time.Now()
	copied := cluster.Name{Namespace: "dr", Name: "copy"}
	state := read(t, now, func(s *exportertest.Storage, _ objstore.Store) {
		s.Report(exportertest.Failed(prod, "old", now.Add(-50*time.Hour)))
		backedUp(s, 0, now.Add(-40*time.Hour))
		s.Report(exportertest.Failed(prod, "f1", now.Add(-20*time.Hour)))
		s.Report(exportertest.Failed(prod, "f2", now.Add(-10*time.Hour)))
		s.Report(exportertest.Restore("b0", copied, "done", now.Add(-9*time.Hour)))
		failed := exportertest.Restore("b0", copied, "f3", now.Add(-8*time.Hour))
		failed.Outcome, failed.ErrorKind = phase.Failed, failure.Limited.String()
		s.Report(failed)
	})
	runs := func(of cluster.Name) (ids []cluster.RunID) {
		for _, r := range state.Clusters[of].Failures() {
			ids = append(ids, r.Run)
		}
		return ids
	}
	require.Equal(t, []cluster.RunID{"f1", "f2"}, runs(prod))
	require.Equal(t, []cluster.RunID{"f3"}, runs(copied))
}

// A restore counts for the cluster whose backup it was, also after the backup was deleted.
func TestRestored_OfTheCluster_BackedUp(t *testing.T) {
	t.Parallel()
	now := time.Now()
	copied := cluster.Name{Namespace: "dr", Name: "copy"}
	for name, listed := range map[string]bool{"listed": true, "deleted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := read(t, now, func(s *exportertest.Storage, _ objstore.Store) {
				at := now.Add(-40 * time.Hour)
				if listed {
					s.Sealed("b0", prod, "r0", at)
				}
				s.Report(exportertest.Backup("b0", prod, "r0", at, 600, 3))
				s.Report(exportertest.Restore("b0", copied, "first", now.Add(-20*time.Hour)))
				s.Report(exportertest.Restore("b0", copied, "second", now.Add(-10*time.Hour)))
				failed := exportertest.Restore("b0", copied, "third", now.Add(-5*time.Hour))
				failed.Outcome, failed.ErrorKind = phase.Failed, failure.Limited.String()
				s.Report(failed)
			})
			require.Equal(t, cluster.RunID("second"), state.Clusters[prod].Restored.Run)
			require.Nil(t, state.Clusters[copied].Restored)
		})
	}
}

// The backup that a restore of the latest one takes is the one whose age counts.
func TestSealed_NewestBackupTS_NotTheLastToBeSealed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := read(t, now, func(s *exportertest.Storage, store objstore.Store) {
		s.Sealed("b1", prod, "r1", now.Add(-time.Hour))
		s.Sealed("b2", prod, "r2", now.Add(-2*time.Hour)) // resumed, and sealed just now
		body, version, err := store.Get(t.Context(), manifest.SealKey("b2"))
		require.NoError(t, err)
		seal, err := manifest.DecodeSeal(body)
		require.NoError(t, err)
		seal.SealedAt = now
		body, err = json.Marshal(seal)
		require.NoError(t, err)
		_, err = store.Replace(t.Context(), manifest.SealKey("b2"), body, version)
		require.NoError(t, err)
	}).Clusters[prod]
	require.Equal(t, cluster.BackupID("b1"), c.Sealed.ID)
}

// A run that ended and could not free its lock has a report, and has not died.
func TestCount_RunEndedAndKeptTheLock_IsNotCountedTwice(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := read(t, now, func(s *exportertest.Storage, store objstore.Store) {
		s.Report(exportertest.Failed(prod, "r1", now.Add(-time.Hour)))
		s.Lock(prod, "r1", now.Add(-time.Hour), true)
		s.Journal(prod, "r1", "sandbox-1", now.Add(-time.Hour), "lock")
		j := journal.NewStoreJournal(store, manifest.JournalPrefix("r1"))
		require.NoError(t, j.Append(t.Context(), phase.Record{Seq: 3, Run: "r1", Type: phase.RecordEnd, Error: "x"}))
	}).Clusters[prod]
	require.Equal(t, 1, c.Count(report.Backup, "failed"))
	require.Equal(t, 0, c.Count(report.Backup, "died"))
}

// What cannot be decoded is named: it may be what a cluster's state depends on.
func TestRead_CannotBeDecoded_IsNamed(t *testing.T) {
	t.Parallel()
	lost := cluster.Name{Namespace: "tidb", Name: "lost"}
	state := read(t, time.Now(), func(s *exportertest.Storage, store objstore.Store) {
		s.Lock(prod, "r1", time.Now(), false)
		s.Journal(prod, "r1", "b1", time.Now(), "lock")
		for _, key := range []string{
			manifest.LockKey(lost), manifest.ReportKey("b0", "r0"), manifest.JournalKey("r1", 3),
		} {
			_, err := store.Create(t.Context(), key, []byte("{"))
			require.NoError(t, err)
		}
	})
	require.ElementsMatch(t,
		[]string{manifest.LockKey(lost), manifest.ReportKey("b0", "r0"), manifest.JournalKey("r1", 3)}, state.Unreadable)
}

// A cluster's backups are archived and copied while it is backed up: the locks of that are its own, and no clusters. A lease
// is of a run in another storage.
func TestRead_LockOfArchives_IsTheClusters(t *testing.T) {
	t.Parallel()
	now := time.Now()
	locks := func(dead bool) *fleet.State {
		return read(t, now, func(s *exportertest.Storage, _ objstore.Store) {
			backedUp(s, 1, now.Add(-time.Hour))
			s.Lock(prod, "run-of-backup", now.Add(-time.Minute), false)
			about := journal.About{Operation: journal.Archive, Cluster: prod}
			s.Lock(about.Lock(), "run-of-archive", now.Add(-time.Hour), dead)
			about.Operation = journal.Copy
			s.Lock(about.Lock(), "run-of-copy", now.Add(-time.Hour), dead)
			s.Lock(journal.UseLock(prod, "elsewhere"), "run-elsewhere", now.Add(-time.Hour), dead)
		})
	}
	s := locks(false)
	require.Len(t, s.Clusters, 1)
	c := s.Clusters[prod]
	require.EqualValues(t, "run-of-backup", c.Lock.Record.Owner.Run)
	require.EqualValues(t, "run-of-archive", c.Beside[journal.Archive].Record.Owner.Run)
	require.True(t, c.Live())
	require.Same(t, c.Beside[journal.Archive], s.Owned("run-of-archive"))
	require.Same(t, c.Beside[journal.Copy], s.Owned("run-of-copy"))
	require.Same(t, c.Lock, s.Owned("run-of-backup"))
	require.True(t, locks(true).Clusters[prod].Live(), "the backup lives")
}

// A drill is as old as its lock, whether it runs or has died, and its cage about as old.
func TestSince_RunWithoutAnEnd_HasItsLockSince(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, dead := range []bool{false, true} {
		s := read(t, now, func(s *exportertest.Storage, _ objstore.Store) {
			backedUp(s, 1, now.Add(-2*time.Hour))
			about := journal.About{Operation: journal.Drill, Cluster: prod}
			s.Began(about, "run-of-drill", now.Add(-time.Hour), "cage")
			s.Lock(about.Lock(), "run-of-drill", now.Add(-time.Hour), dead)
		})
		c, outcomes := s.Clusters[prod], map[bool]string{false: "running", true: "died"}
		require.WithinDuration(t, now.Add(-time.Hour), c.Since(report.Drill, outcomes[dead]), time.Second)
		require.Zero(t, c.Since(report.Drill, outcomes[!dead]))
		require.Zero(t, c.Since(report.Backup, outcomes[dead]))
	}
}
