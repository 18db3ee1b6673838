package backup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// remainsSnapshots is the key of the run's snapshots in Remains.
const remainsSnapshots = "snapshots"

// unfinished describes what remains of the run from the lock on.
func unfinished(storage string, o Options) string {
	text := fmt.Sprintf("run %s of backup %s is not finished: tisnap runs abort %s --storage %s --yes undoes it",
		o.Run, o.Backup, o.Run, storage)
	if o.ClusterMeta == nil {
		return text + ", the same command continues it"
	}
	return text + ", and so does the next backup in the same storage"
}

// note records what would remain of an attempt that begins or is taken over, and how to delete its snapshots.
func (a *attempt) note(remains *phase.Remains, how string) {
	if a.hold != nil {
		remains.Set(phase.RemainsHold, a.hold.Remains)
	}
	sets := a.sets
	remains.Set(remainsSnapshots, func() string {
		ids, asked := sets.remaining()
		if len(ids)+asked == 0 {
			return ""
		}
		var parts []string
		if len(ids) > 0 {
			parts = append(parts, fmt.Sprintf("%d snapshots (%s)", len(ids), strings.Join(ids, " ")))
		}
		if asked > 0 {
			parts = append(parts, fmt.Sprintf("what EC2 still makes of %d requests", asked))
		}
		return strings.Join(parts, " and ") + ": " + how
	})
}

// remaining lists the known snapshots and counts the unanswered requests.
func (s *sets) remaining() (ids []string, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, snaps := range s.byStore {
		for _, snap := range snaps {
			if !s.deleted[snap.ID] {
				ids = append(ids, string(snap.ID))
			}
		}
	}
	slices.Sort(ids)
	for store := range s.begun {
		if _, answered := s.ended[store]; !answered || s.unseen(store) {
			asked++
		}
	}
	return ids, asked
}

// noteDeleted records that a snapshot is gone.
func (s *sets) noteDeleted(id cluster.SnapshotID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted[id] = true
}

// unseen reports whether a request for the store is ambiguous and nothing that it made was found.
func (s *sets) unseen(id cluster.StoreID) bool {
	_, ambiguous := s.ambiguous[id]
	return ambiguous && len(s.byStore[id]) == 0
}
