package ebstest

import (
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// copying is a copy's way to completed or error: it waits until no older copy of its volume is pending, then its data
// is moved.
type copying struct {
	at      *Server // where it arrives
	source  *snapshot
	lineage string
	minutes int64   // asked for; 0 is a standard copy
	rate    float64 // bytes per second
	delay   time.Duration

	beganAt time.Time // of the data; zero while it waits
	bytes   int64
	full    string // why all data is moved; "" if only what has changed is
	failAt  time.Time
	message string
	endedAt time.Time // zero while it is pending, unless it is completed
}

// Copy is a copy of a snapshot whose data is being moved or was, as Amazon's event copySnapshot reports it.
type Copy struct {
	Snapshot, Source cluster.SnapshotID
	Bytes            int64  // moved
	Full             string // why all data was moved; "" if only what has changed was
	BeganAt          time.Time
}

// The reasons for a full copy.
const (
	FullFirst   = "no copy of the volume is here yet"
	FullDeleted = "the most recent copy of the volume was deleted"
	FullKey     = "the copies of the volume have different keys"
	FullArchive = "the most recent copy of the volume is in the archive tier"
)

// lineage names what a snapshot's copies are incremental to each other by: its volume. Copies of a copy are a lineage
// of their own.
func (p *snapshot) lineage() string {
	if p.copying == nil {
		return string(p.volume)
	}
	return p.copying.lineage + " in " + p.owner.cfg.Region + " of " + p.owner.cfg.Account
}

// settleCopies brings the pending copies of this account and region to where they are now.
func (s *Server) settleCopies(now time.Time) {
	for _, p := range s.copies { // by age, so that those that wait find the end of the ones before
		s.settleCopy(p, now)
	}
	s.copies = slices.DeleteFunc(s.copies, func(p *snapshot) bool { return p.state(now) != ebs.SnapshotPending || p.deleted })
}

func (s *Server) settleCopy(p *snapshot, now time.Time) {
	c := p.copying
	if at, waits := s.turnOf(p, now); c.beganAt.IsZero() && c.failAt.IsZero() && !waits {
		s.begin(p, at)
	}
	switch {
	case p.deleted || p.set.failed || p.state(now) == ebs.SnapshotCompleted:
	case !c.failAt.IsZero() && !now.Before(c.failAt):
		p.set.failed, p.set.message, c.endedAt = true, c.message, c.failAt
	case s.rules.Copies.NeedSource && (c.source.deleted || !c.source.readableBy(s.cfg.Account)):
		p.set.failed, p.set.message, c.endedAt = true, "The source snapshot is not accessible", now
	}
}

// turnOf is when a copy's data may begin to move: at its start, or when the last older copy of its volume has ended.
func (s *Server) turnOf(p *snapshot, now time.Time) (at time.Time, waits bool) {
	at = p.startedAt
	for _, older := range s.copies {
		if older == p {
			return at, false
		}
		if older.copying.lineage != p.copying.lineage {
			continue
		}
		end := older.endOfCopy(now)
		if end.IsZero() {
			return at, true
		}
		at = later(at, end)
	}
	return at, false
}

// endOfCopy is when a copy ended, in whatever way; zero while it is pending.
func (p *snapshot) endOfCopy(now time.Time) time.Time {
	switch {
	case !p.copying.endedAt.IsZero():
		return p.copying.endedAt
	case p.deleted || p.set.failed:
		return now
	case p.state(now) == ebs.SnapshotCompleted:
		return p.completeAt
	default:
		return time.Time{}
	}
}

// begin decides what has to be moved, and until when.
func (s *Server) begin(p *snapshot, at time.Time) {
	c := p.copying
	c.beganAt = at
	c.bytes, c.full = s.toMove(p, at)
	p.completeAt = at.Add(c.delay + time.Duration(float64(c.bytes)/max(1, c.rate)*float64(time.Second)))
	s.copied = append(s.copied, Copy{Snapshot: p.id, Source: c.source.id, Bytes: c.bytes, Full: c.full, BeganAt: at})
}

// toMove is how much data a copy needs: nothing within one account, region and encryption; what differs from the most
// recently completed copy of the volume, if that still exists and all have one key; all of it otherwise.
func (s *Server) toMove(p *snapshot, at time.Time) (bytes int64, full string) {
	source := p.copying.source
	if source.owner == s && source.kmsKey == p.kmsKey {
		return 0, ""
	}
	var last *snapshot
	for _, other := range s.snapshots {
		if other == p || other.copying == nil || other.copying.lineage != p.copying.lineage || !other.completedBy(at) {
			continue
		}
		if !other.deleted && other.kmsKey != p.kmsKey {
			return p.fullBytes, FullKey
		}
		if last == nil || other.completeAt.After(last.completeAt) {
			last = other
		}
	}
	switch {
	case last == nil:
		return p.fullBytes, FullFirst
	case last.deleted:
		return p.fullBytes, FullDeleted
	case last.tier(at) == tierArchive:
		return p.fullBytes, FullArchive
	case p.image == nil || last.image == nil: // snapshots without data, of AddForeignSnapshots
		return 0, ""
	}
	changed := len(p.image.Changed(last.image, disk.PageSize)) * disk.PageSize
	return int64(float64(changed) * s.rules.ByteScale), ""
}

// completedBy reports whether a copy was completed at that time, and not deleted before it was.
func (p *snapshot) completedBy(at time.Time) bool {
	return !p.set.failed && !p.completeAt.After(at) && (p.copying.endedAt.IsZero() || !p.copying.endedAt.Before(p.completeAt))
}

// Copies lists the copies into this account and region whose data was moved, or is being moved, in their order.
func (s *Server) Copies() []Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	return slices.Clone(s.copied)
}
