package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// State is the content of the storage when it was read. It is immutable.
type State struct {
	Read     time.Time
	Backups  []catalog.Entry // the newest first
	Runs     []history.Run   // the oldest first, without unreadable ones
	Clusters map[cluster.Name]*Cluster
	// Unreadable are the keys of reports, locks and journals that cannot be decoded; such backups are damaged.
	Unreadable []string
}

func newState(now time.Time, read *history.State, locks map[cluster.Name]*Lock, unreadable []string) *State {
	s := &State{
		Read: now, Backups: slices.Clone(read.Backups), Clusters: map[cluster.Name]*Cluster{},
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
	sources := map[cluster.BackupID]cluster.Name{}
	for i := range s.Backups {
		e := &s.Backups[i]
		sources[e.ID] = e.Cluster
		s.cluster(e.Cluster).addBackup(e)
	}
	for i := range s.Runs {
		s.addRun(&s.Runs[i], sources)
	}
	for name, lock := range locks {
		if journal.IsUse(name) || cage.Is(name.Namespace) { // of a run in another storage, or of a drill's copy
			continue
		}
		if of, by, beside := journal.Beside(name); beside {
			s.cluster(of).Beside[by] = lock
			continue
		}
		s.cluster(name).Lock = lock
	}
	maps.DeleteFunc(s.Clusters, func(_ cluster.Name, c *Cluster) bool {
		open := slices.ContainsFunc(c.locks(), func(l *Lock) bool { return !l.Record.Released })
		return len(c.States) == 0 && !open && now.Sub(c.active()) > quietAge
	})
	return s
}

// addRun adds a run to its cluster, and a restore also to the cluster that was backed up. Of a deleted backup that is
// the one in the backup's own report, which is older.
func (s *State) addRun(r *history.Run, sources map[cluster.BackupID]cluster.Name) {
	if !slices.Contains(Operations(), r.Operation) {
		return // of a newer version
	}
	c := s.cluster(r.Cluster)
	c.Runs[r.Operation] = append(c.Runs[r.Operation], r)
	if r.Operation == report.Backup {
		if _, listed := sources[r.Backup]; !listed {
			sources[r.Backup] = r.Cluster
		}
		return
	}
	name, known := sources[r.Backup]
	if !known || slices.Contains(beside(), r.Operation) || r.Outcome != phase.Done {
		return
	}
	if of := s.cluster(name); of.Restored == nil || r.Finished.After(of.Restored.Finished) {
		of.Restored = r
	}
}

// quietAge is how long a cluster without backups, such as the target of a drill, is shown after its last run.
const quietAge = 30 * 24 * time.Hour

func (s *State) cluster(name cluster.Name) *Cluster {
	c := s.Clusters[name]
	if c == nil {
		c = &Cluster{
			Name: name, Beside: map[journal.Operation]*Lock{}, States: map[catalog.State]int{},
			Runs: map[report.Operation][]*history.Run{},
		}
		s.Clusters[name] = c
	}
	return c
}

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
	for _, c := range s.Clusters {
		for _, lock := range c.locks() {
			if lock.Record.Owner.Run == run && !lock.Record.Released {
				return lock
			}
		}
	}
	return nil
}
