package hold_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// pass lets time pass for the journal of a run: every record is that much older.
func (p *place) pass(t *testing.T, run cluster.RunID, by time.Duration) {
	t.Helper()
	store, ctx := p.store(t), within(t, time.Minute)
	for _, r := range p.journal(t, run) {
		r.Time = r.Time.Add(-by)
		require.NoError(t, store.Delete(ctx, manifest.JournalKey(run, r.Seq)))
		require.NoError(t, journal.NewStoreJournal(store, manifest.JournalPrefix(run)).Append(ctx, r))
	}
}

// TestStoreDeadForGood kills a backup in its hold, and then a store that never comes back. While the dead run may hold
// something there the cluster counts as held; after that nothing does, and the run can be ended.
// Catalogue: H1.
func TestStoreDeadForGood_IsHeldNoLongerThanTheRunCouldHoldIt(t *testing.T) {
	t.Parallel()
	release := []string{"release", prod.String(), "--yes"}
	abort := []string{"runs", "abort", "dead", "--yes"}
	resume := []string{
		"backup", prod.String(), "-o", "json", "--lease", lease.String(), "--max-hold", "6s", "--timeout", "1m", "--pending-quota", "5000", "--steady", "1s",
		"--name", "a", "--run-id", "dead", "--hold-attempts", "1",
	}
	for name, row := range map[string]struct {
		before, after []string
		calls         string // that the store does not answer
		left          bool   // its snapshots
	}{
		"release": {before: release, after: release, calls: "*", left: true},
		"abort":   {before: abort, after: abort, calls: "*"},
		// A store that never answers is refused by the preflight.
		"resume": {before: release, after: resume, calls: "PrepareSnapshotBackup*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3, func(c *testbed.Config) { c.Rules.SnapshotSpacing, c.StaticRegions = 0, 4 })
			p.killedBackup(t, "journal.done.cut", fault.Stall, "--name", "a", "--run-id", "dead", "--max-hold", "6s")
			require.NotEmpty(t, p.EC2.Snapshots())
			p.releasedWithin(t, time.Minute)
			p.expire(t)
			store := id(p.c.Stores()[1])
			p.fault(t, fault.Rule{Point: "tikv." + store + "." + row.calls, Code: "Unavailable", Times: -1})

			e := p.run(within(t, 2*time.Minute), row.before...)
			require.Equal(t, exitHeld, e.code, e.String())
			require.Contains(t, e.stderr, "a permanently dead store is skipped")
			p.expire(t)
			p.pass(t, "dead", time.Hour)

			e = p.run(within(t, 2*time.Minute), row.after...)
			switch name {
			case "resume": // the store cannot be held again either, but nothing of the dead run stays
				require.NotEqual(t, exitHeld, e.code, e.String())
				require.Contains(t, e.stderr, "an earlier process's attempt ended before its cut was proven")
			case "release":
				require.Contains(t, e.stdout, "NOT REACHED")
				require.Contains(t, e.stdout, "store "+store)
				fallthrough
			default:
				require.Zero(t, e.code, e.String())
			}
			require.Equal(t, row.left, len(p.EC2.Snapshots()) > 0)
		})
	}
}
