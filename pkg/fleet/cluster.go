package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

const gib = 1 << 30

// Cluster is the state of one cluster.
type Cluster struct {
	Name cluster.Name
	Lock *Lock // nil if it has none
	// Beside are the locks of its archives and copies, as far as it has them.
	Beside map[journal.Operation]*Lock
	States map[catalog.State]int
	Sealed *catalog.Entry                      // the sealed backup with the newest backup ts; nil without one
	Runs   map[report.Operation][]*history.Run // that ended, the oldest first
	// Restored is the newest restore of a backup of this cluster that was done, into any cluster; nil without one.
	Restored *history.Run
	Archived manifest.ClustersArchives // in all repositories; empty without a record of it
	// Unreadable are the archives, of whatever cluster, that cannot be read in the repositories that have some of it.
	Unreadable int

	Snapshots int
	SizeGiB   int64
	// LargestBytes is the data of the largest sealed backup, DataBytes that of all; where it is unknown, the volumes'
	// size.
	LargestBytes, DataBytes int64
}

// Operations are those whose runs are counted.
func Operations() []report.Operation {
	return []report.Operation{
		report.Backup, report.Restore, report.Resolve, report.Archive, report.Copy, report.Drill,
	}
}

// beside are the operations that leave all clusters alone.
func beside() []report.Operation {
	return []report.Operation{report.Archive, report.Copy, report.Drill}
}

func (c *Cluster) addBackup(e *catalog.Entry) {
	c.States[e.State]++
	if e.State != catalog.StateSealed {
		return
	}
	c.Snapshots += e.Snapshots
	c.SizeGiB += e.SizeGiB
	c.LargestBytes = max(c.LargestBytes, e.DataBytes)
	c.DataBytes += cmp.Or(e.DataBytes, e.SizeGiB*gib)
	if c.Sealed == nil || e.BackupTS > c.Sealed.BackupTS {
		c.Sealed = e
	}
}

// locks are those that it has.
func (c *Cluster) locks() []*Lock {
	all := slices.Collect(maps.Values(c.Beside))
	if c.Lock != nil {
		all = append(all, c.Lock)
	}
	return all
}

// Last returns the last run of these operations that ended; nil without one.
func (c *Cluster) Last(of ...report.Operation) *history.Run {
	var last *history.Run
	for _, op := range of {
		for _, r := range c.Runs[op] {
			if last == nil || !r.Finished.Before(last.Finished) {
				last = r
			}
		}
	}
	return last
}

// Count is the number of runs with that outcome, which is "running" or "died" for one without an end.
func (c *Cluster) Count(op report.Operation, outcome string) (n int) {
	for _, r := range c.Runs[op] {
		if string(r.Outcome) == outcome {
			n++
		}
	}
	for _, lock := range c.locks() {
		if lock.Operation() == op && lock.outcome() == outcome {
			n++
		}
	}
	return n
}

// Since is when the oldest of the runs without an end got its lock, of those that are "running" or that "died"; zero if
// there is none. Of a drill it is about as old as its cage.
func (c *Cluster) Since(op report.Operation, outcome string) (since time.Time) {
	for _, lock := range c.locks() {
		at := lock.Record.AcquiredAt
		if lock.Operation() == op && lock.outcome() == outcome && (since.IsZero() || at.Before(since)) {
			since = at
		}
	}
	return since
}

// Open returns the locks whose owners live, or died in a run without an end: the cluster's own, then those of drills,
// archives and copies.
func (c *Cluster) Open() (open []*Lock) {
	all := []*Lock{c.Lock, c.Beside[journal.Drill], c.Beside[journal.Archive], c.Beside[journal.Copy]}
	return slices.DeleteFunc(all, func(l *Lock) bool { return l == nil || !l.Alive && !l.Dead() })
}

// Ended returns the last run of an operation that was done, or failed without being interrupted; nil without one.
func (c *Cluster) Ended(op report.Operation) *history.Run {
	var last *history.Run
	for _, r := range c.Runs[op] {
		if r.ErrorKind != failure.Interrupted && (last == nil || !r.Finished.Before(last.Finished)) {
			last = r
		}
	}
	return last
}

// Good returns the last run of an operation that was done; nil without one.
func (c *Cluster) Good(op report.Operation) *history.Run {
	var last *history.Run
	for _, r := range c.Runs[op] {
		if r.Outcome == phase.Done && (last == nil || !r.Finished.Before(last.Finished)) {
			last = r
		}
	}
	return last
}

// Done returns the backups that succeeded, deleted ones included, the oldest first.
func (c *Cluster) Done() (done []*history.Run) {
	for _, r := range c.Runs[report.Backup] {
		if r.ErrorKind == "" {
			done = append(done, r)
		}
	}
	return done
}

// Live reports whether a live run has the cluster's lock.
func (c *Cluster) Live() bool { return c.Lock != nil && c.Lock.Alive }

// RestoredOnly reports whether no backup of the cluster was ever attempted.
func (c *Cluster) RestoredOnly() bool {
	return len(c.States) == 0 && len(c.Runs[report.Backup]) == 0 &&
		(c.Lock == nil || c.Lock.outcome() == "" || c.Lock.Operation() != report.Backup)
}

// Failures returns the failed runs since the last good one, the oldest first: of backups, or of restores and resolves
// of a cluster that was never backed up. Runs that failed before they had the lock leave no report and do not count.
func (c *Cluster) Failures() (failed []*history.Run) {
	of := []report.Operation{report.Backup}
	var good time.Time
	if c.RestoredOnly() {
		of = []report.Operation{report.Restore, report.Resolve}
	}
	if c.Sealed != nil {
		good = c.Sealed.SealedAt
	}
	for _, op := range of {
		for _, r := range c.Runs[op] {
			switch {
			case r.Outcome == phase.Failed:
				failed = append(failed, r)
			case r.Finished.After(good):
				good = r.Finished
			}
		}
	}
	failed = slices.DeleteFunc(failed, func(r *history.Run) bool { return !r.Finished.After(good) })
	slices.SortFunc(failed, func(a, b *history.Run) int { return a.Finished.Compare(b.Finished) })
	return failed
}

// Held reports whether the cluster is held at that time, by the storage: by a run without an end whose journal has the
// hold, or by one that ended without releasing it and without a run or release after it.
func (c *Cluster) Held(now time.Time) bool {
	if c.Lock != nil && !c.Lock.Record.Released && c.Lock.holds() {
		return true
	}
	run := c.Last(report.Backup)
	if run == nil || run.ErrorKind != failure.Held.String() || now.Sub(run.Finished) > holdAge {
		return false
	}
	if c.Lock == nil {
		return true
	}
	// no later run took the lock
	return !c.Lock.Record.AcquiredAt.After(run.Finished) && !c.Lock.Record.ReleasedAt.After(run.Finished)
}

// holdAge is how long a run that ended without releasing its cluster counts: what it paused expires much earlier.
const holdAge = 24 * time.Hour

// active is the time of the cluster's last activity.
func (c *Cluster) active() time.Time {
	var last time.Time
	if r := c.Last(Operations()...); r != nil {
		last = r.Finished
	}
	if c.Sealed != nil && c.Sealed.SealedAt.After(last) {
		last = c.Sealed.SealedAt
	}
	return last
}
