package exporter

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// state is the content of the storage when it was read. It is immutable.
type state struct {
	read     time.Time
	backups  []catalog.Entry // the newest first
	runs     []history.Run   // the oldest first, without unreadable ones
	problems int             // unreadable runs and locks
	locks    map[cluster.Name]*lockState

	clusters map[cluster.Name]*clusterState
}

// clusterState is the state of one cluster.
type clusterState struct {
	name    cluster.Name
	states  map[catalog.State]int
	sealed  *catalog.Entry                    // the newest sealed backup
	last    map[report.Operation]*history.Run // the last that ended
	count   map[report.Operation]map[string]int
	kinds   map[report.Operation]map[string]int // of failed runs
	backups []*history.Run                      // runs of backups that were done, the oldest first

	snapshots int
	sizeGiB   int64
	// largestBytes is the data of the largest sealed backup, dataBytes that of all; where it is unknown, the volumes'
	// size.
	largestBytes, dataBytes int64
}

// held reports whether the cluster is held, by the storage.
func (s *state) held(c *clusterState) bool {
	lock := s.locks[c.name]
	if lock != nil && !lock.record.Released && lock.holds() {
		return true
	}
	run := c.last[report.Backup]
	if run == nil || run.ErrorKind != failure.Held.String() || s.read.Sub(run.Finished) > holdAge {
		return false
	}
	if lock == nil {
		return true
	}
	// no later run took the lock
	return !lock.record.AcquiredAt.After(run.Finished) && !lock.record.ReleasedAt.After(run.Finished)
}

// holdAge is how long a run that ended without releasing its cluster counts: what it paused expires much earlier.
const holdAge = 24 * time.Hour

func newState(now time.Time, read *history.State, locks map[cluster.Name]*lockState, problems int) *state {
	s := &state{
		read: now, backups: slices.Clone(read.Backups), locks: locks, problems: problems,
		clusters: map[cluster.Name]*clusterState{},
	}
	slices.Reverse(s.backups)
	for i := range read.Runs {
		if read.Runs[i].Problem != "" {
			s.problems++
			continue
		}
		s.runs = append(s.runs, read.Runs[i])
	}
	for i := range s.backups {
		s.addBackup(&s.backups[i])
	}
	for i := range s.runs {
		s.addRun(&s.runs[i])
	}
	for name, lock := range locks {
		if outcome := lock.outcome(); outcome != "" {
			s.cluster(name).counted(lock.operation(), outcome)
		}
	}
	maps.DeleteFunc(s.clusters, func(name cluster.Name, c *clusterState) bool {
		lock := locks[name]
		return len(c.states) == 0 && (lock == nil || lock.record.Released) && now.Sub(c.active()) > quietAge
	})
	return s
}

// quietAge is how long a cluster without backups, such as the target of a drill, is shown after its last run.
const quietAge = 30 * 24 * time.Hour

// lastFailed reports whether the newest of the cluster's runs of these kinds failed.
func (c *clusterState) lastFailed(of ...report.Operation) bool {
	var last *history.Run
	for _, op := range of {
		if r := c.last[op]; r != nil && (last == nil || r.Finished.After(last.Finished)) {
			last = r
		}
	}
	return last != nil && last.Outcome == phase.Failed
}

func (s *state) cluster(name cluster.Name) *clusterState {
	c := s.clusters[name]
	if c == nil {
		c = &clusterState{
			name: name, states: map[catalog.State]int{}, last: map[report.Operation]*history.Run{},
			count: map[report.Operation]map[string]int{}, kinds: map[report.Operation]map[string]int{},
		}
		s.clusters[name] = c
	}
	return c
}

func (s *state) addBackup(e *catalog.Entry) {
	c := s.cluster(e.Cluster)
	c.states[e.State]++
	if e.State != catalog.StateSealed {
		return
	}
	c.snapshots += e.Snapshots
	c.sizeGiB += e.SizeGiB
	c.largestBytes = max(c.largestBytes, e.DataBytes)
	c.dataBytes += cmp.Or(e.DataBytes, e.SizeGiB*gib)
	if c.sealed == nil || e.SealedAt.After(c.sealed.SealedAt) {
		c.sealed = e
	}
}

func (s *state) addRun(r *history.Run) {
	c := s.cluster(r.Cluster)
	op := r.Operation
	if !slices.Contains(operations(), op) {
		return // of a newer version
	}
	c.counted(op, string(r.Outcome))
	if r.ErrorKind != "" {
		if c.kinds[op] == nil {
			c.kinds[op] = map[string]int{}
		}
		c.kinds[op][knownKind(r.ErrorKind)]++
	}
	if last := c.last[op]; last == nil || !r.Finished.Before(last.Finished) {
		c.last[op] = r
	}
	if op == report.Backup && r.ErrorKind == "" {
		c.backups = append(c.backups, r)
	}
}

func (c *clusterState) counted(op report.Operation, outcome string) {
	if c.count[op] == nil {
		c.count[op] = map[string]int{}
	}
	c.count[op][outcome]++
}

// restoredOnly reports whether no backup of the cluster was ever attempted.
func (c *clusterState) restoredOnly() bool {
	return len(c.states) == 0 && len(c.count[report.Backup]) == 0
}

// active is the time of the cluster's last activity.
func (c *clusterState) active() time.Time {
	var last time.Time
	for _, r := range c.last {
		if r.Finished.After(last) {
			last = r.Finished
		}
	}
	if c.sealed != nil && c.sealed.SealedAt.After(last) {
		last = c.sealed.SealedAt
	}
	return last
}

// ordered returns the most recently active clusters, at most limit, and how many more there are.
func (s *state) ordered(limit int) (shown []*clusterState, dropped int) {
	all := slices.SortedFunc(maps.Values(s.clusters), func(a, b *clusterState) int {
		return cmp.Or(b.active().Compare(a.active()), cmp.Compare(a.name.String(), b.name.String()))
	})
	if len(all) > limit {
		return all[:limit], len(all) - limit
	}
	return all, 0
}

func operations() []report.Operation {
	return []report.Operation{report.Backup, report.Restore, report.Resolve}
}

// knownKind maps a kind of error to one that this version knows: a storage may contain anything.
func knownKind(kind string) string {
	for k := failure.Unknown; k <= failure.Corrupt; k++ {
		if k.String() == kind {
			return kind
		}
	}
	return failure.Unknown.String()
}
