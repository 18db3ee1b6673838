package ebstest

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// This file has what goes wrong inside EC2 after it has accepted a call.

// FailSnapshot turns a snapshot, and with it all that its CreateSnapshots call made, to error.
func (s *Server) FailSnapshot(id cluster.SnapshotID) error {
	return s.mishap(id, func(p *snapshot) { p.set.failed, p.set.message = true, "An internal error occurred." })
}

// ForceSnapshotState makes EC2 report this state of a snapshot, whatever is true; "" ends it.
func (s *Server) ForceSnapshotState(id cluster.SnapshotID, state ebs.SnapshotState) error {
	return s.mishap(id, func(p *snapshot) { p.forced = state })
}

// FreezeSnapshot stops a pending snapshot's progress where it is, for good.
func (s *Server) FreezeSnapshot(id cluster.SnapshotID) error {
	return s.mishap(id, func(p *snapshot) { p.frozenAt = s.now() })
}

// PutSnapshotOnOutpost makes EC2 keep a snapshot on the Outpost with this ARN.
func (s *Server) PutSnapshotOnOutpost(id cluster.SnapshotID, arn string) error {
	return s.mishap(id, func(p *snapshot) { p.outpost = arn })
}

// ArchiveSnapshot moves a completed snapshot to the archive tier, at once.
func (s *Server) ArchiveSnapshot(id cluster.SnapshotID) error {
	return s.mishap(id, func(p *snapshot) {
		p.tiering = &tiering{operation: archival, startedAt: s.now(), endsAt: s.now()}
		s.archived(p)
	})
}

// LendSnapshot brings an archived snapshot back for so many days, at once.
func (s *Server) LendSnapshot(id cluster.SnapshotID, days int) error {
	return s.mishap(id, func(p *snapshot) {
		now := s.now()
		p.tiering = &tiering{
			operation: temporaryRestore, startedAt: now, endsAt: now, archivedAt: p.tiering.archivedAt,
			days: int64(days), expiresAt: now.AddDate(0, 0, days),
		}
	})
}

func (s *Server) mishap(id cluster.SnapshotID, strike func(*snapshot)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.snapshots[id]
	if !ok || p.deleted {
		return refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
	}
	strike(p)
	return nil
}

// FailVolume turns a volume that is not attached to error, as EC2 does with one whose key is not usable.
func (s *Server) FailVolume(id cluster.VolumeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	switch {
	case err != nil:
		return err
	case v.instance != "":
		return refusal("VolumeInUse", "Volume %s is currently attached to %s", v.id, v.instance)
	}
	v.failed = true
	return nil
}

// Untag takes a tag off a snapshot or volume, as some other tool of the account may do.
func (s *Server) Untag(id, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.snapshots[cluster.SnapshotID(id)]; ok {
		delete(p.tags, key)
		return nil
	}
	v, err := s.liveVolume(cluster.VolumeID(id))
	if err == nil {
		delete(v.tags, key)
	}
	return err
}

// VanishNext makes the next so many accepted volumes disappear when they should become available. Their
// client tokens are burned.
func (s *Server) VanishNext(count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vanishNext = count
}

// LoseSnapshot deletes a snapshot, as someone of its account would.
func (s *Server) LoseSnapshot(id cluster.SnapshotID) error {
	return s.mishap(id, func(p *snapshot) { p.deleted = true })
}
