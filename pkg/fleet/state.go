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
	"github.com/tisnap/tisnap/pkg/report"
)

// State is the content of the storage when it was read. It is immutable.
type State struct {
	Read     time.Time
	Backups  []catalog.Entry // the newest first
	Runs     []history.Run   // the oldest first, without unreadable ones
	Locks    map[cluster.Name]*Lock
	Clusters map[cluster.Name]*Cluster
	// Unreadable are the keys of reports and locks that cannot be decoded. Backups of which that is true are damaged.
	Unreadable []string
}

func newState(now time.Time, read *history.State, locks map[cluster.Name]*Lock, unreadable []string) *State {
	s := &State{
		Read: now, Backups: slices.Clone(read.Backups), Locks: locks, Clusters: map[cluster.Name]*Cluster{},
		Unreadable: unreadable,
	}
	slices.Reverse(s.Backups)
	for i := range read.Runs {
		if read.Runs[i].Problem != "" {
			s.Unreadable = append(s.Unreadable, read.Runs[i].Key)
			continue
		}
		s.Runs = append(s.Runs, read.Runs[i])
	}
	for i := range s.Backups {
		e := &s.Backups[i]
		s.cluster(e.Cluster).addBackup(e)
	}
	for i := range s.Runs {
		r := &s.Runs[i]
		s.cluster(r.Cluster).addRun(r)
	}
	for name, lock := range locks {
		if outcome := lock.outcome(); outcome != "" {
			s.cluster(name).counted(lock.Operation(), outcome)
		}
	}
	maps.DeleteFunc(s.Clusters, func(name cluster.Name, c *Cluster) bool {
		lock := locks[name]
		return len(c.States) == 0 && (lock == nil || lock.Record.Released) && now.Sub(c.active()) > quietAge
	})
	return s
}

// quietAge is how long a cluster without backups, such as the target of a drill, is shown after its last run.
const quietAge = 30 * 24 * time.Hour

func (s *State) cluster(name cluster.Name) *Cluster {
	c := s.Clusters[name]
	if c == nil {
		c = &Cluster{
			Name: name, States: map[catalog.State]int{}, Last: map[report.Operation]*history.Run{},
			Count: map[report.Operation]map[string]int{}, Kinds: map[report.Operation]map[string]int{},
		}
		s.Clusters[name] = c
	}
	return c
}

// Held reports whether the cluster is held, by the storage.
func (s *State) Held(c *Cluster) bool {
	lock := s.Locks[c.Name]
	if lock != nil && !lock.Record.Released && lock.holds() {
		return true
	}
	run := c.Last[report.Backup]
	if run == nil || run.ErrorKind != failure.Held.String() || s.Read.Sub(run.Finished) > holdAge {
		return false
	}
	if lock == nil {
		return true
	}
	// no later run took the lock
	return !lock.Record.AcquiredAt.After(run.Finished) && !lock.Record.ReleasedAt.After(run.Finished)
}

// holdAge is how long a run that ended without releasing its cluster counts: what it paused expires much earlier.
const holdAge = 24 * time.Hour

// Ordered returns the most recently active clusters, at most limit, and how many more there are.
func (s *State) Ordered(limit int) (shown []*Cluster, dropped int) {
	all := slices.SortedFunc(maps.Values(s.Clusters), func(a, b *Cluster) int {
		return cmp.Or(b.active().Compare(a.active()), cmp.Compare(a.Name.String(), b.Name.String()))
	})
	if len(all) > limit {
		return all[:limit], len(all) - limit
	}
	return all, 0
}

// Made returns the run with that id; nil if it has no report.
func (s *State) Made(run cluster.RunID) *history.Run {
	for i := range s.Runs {
		if s.Runs[i].Run == run && run != "" {
			return &s.Runs[i]
		}
	}
	return nil
}

// Owned returns the lock that the run has not freed; nil for a run that ended.
func (s *State) Owned(run cluster.RunID) *Lock {
	for _, l := range s.Locks {
		if l.Record.Owner.Run == run && !l.Record.Released {
			return l
		}
	}
	return nil
}
