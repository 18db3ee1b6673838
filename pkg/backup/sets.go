package backup

import (
	"maps"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// sets is what the cut has made so far, by store, and what it may have made.
type sets struct {
	mu        sync.Mutex
	byStore   map[cluster.StoreID][]ebs.Snapshot
	ambiguous map[cluster.StoreID]ebs.CutRequest // EC2 may have carried it out
	asked     time.Time                          // when the last ambiguous request ended
	begun     map[cluster.StoreID]time.Time      // when a set was asked for
	ended     map[cluster.StoreID]time.Time      // when it was answered, or found
	deleted   map[cluster.SnapshotID]bool
}

func newSets() *sets {
	return &sets{
		byStore: map[cluster.StoreID][]ebs.Snapshot{}, ambiguous: map[cluster.StoreID]ebs.CutRequest{},
		begun: map[cluster.StoreID]time.Time{}, ended: map[cluster.StoreID]time.Time{},
		deleted: map[cluster.SnapshotID]bool{},
	}
}

func (s *sets) begin(id cluster.StoreID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[id] = time.Now()
}

func (s *sets) end(id cluster.StoreID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended[id] = time.Now()
}

func (s *sets) took(id cluster.StoreID) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, ok := s.ended[id]
	return ended.Sub(s.begun[id]), ok
}

func (s *sets) put(id cluster.StoreID, snaps []ebs.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(snaps) > 0 {
		s.byStore[id] = snaps
	}
}

// byStoreNow is a copy of the sets by store.
func (s *sets) byStoreNow() map[cluster.StoreID][]ebs.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.byStore)
}

func (s *sets) noteAmbiguous(id cluster.StoreID, req ebs.CutRequest, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ambiguous[id], s.asked = req, at
}

func (s *sets) all() []ebs.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ebs.Snapshot
	for _, snaps := range s.byStore {
		out = append(out, snaps...)
	}
	return out
}

// hiddenUntil is until when EC2 may still hide a snapshot of an ambiguous request; zero if every volume that was
// asked for is among those seen.
func (s *sets) hiddenUntil(seen map[cluster.VolumeID]bool, visibility time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, req := range s.ambiguous {
		for _, v := range req.Volumes {
			if !seen[v] {
				return s.asked.Add(visibility)
			}
		}
	}
	return time.Time{}
}

// snapshots lists those of the stores' volumes, in the order of these.
func (s *sets) snapshots(stores []cluster.Store) []manifest.Snapshot {
	byVolume := map[cluster.VolumeID]ebs.Snapshot{}
	for _, snap := range s.all() {
		byVolume[snap.Volume] = snap
	}
	var out []manifest.Snapshot
	for _, st := range stores {
		for _, v := range st.Volumes {
			snap := byVolume[v.ID]
			out = append(out, manifest.NewSnapshot(snap.ID, st.ID, v, snap.StartedAt))
		}
	}
	return out
}
