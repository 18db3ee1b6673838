package ebstest

import (
	"cmp"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// This file is for the stand-in of the EBS direct APIs, which reads and writes the snapshots of this account.

// ServeDirect lets h answer the EBS direct APIs at the same address. Call it before Start.
func (s *Server) ServeDirect(h http.Handler) { s.direct = h }

// IsDirect reports whether a request is one of the EBS direct APIs: it is signed for them, and their paths could be S3's.
func IsDirect(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Authorization"), "/ebs/aws4_request")
}

// Permits reports whether the caller of all calls has a permission, such as "ebs:GetSnapshotBlock".
func (s *Server) Permits(permission string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.forbids(permission, about{})
}

// Snapshot is a snapshot's present state and content; ok is false if it does not exist.
func (s *Server) Snapshot(id cluster.SnapshotID) (view ebs.Snapshot, image *disk.Image, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	p, ok := s.snapshots[id]
	if !ok || p.deleted {
		return ebs.Snapshot{}, nil, false
	}
	return p.view(s.now()), p.image, true
}

// never is how long a snapshot is pending that is never completed.
const never = 100 * 365 * 24 * time.Hour

// Writable makes a snapshot without a volume, which stays pending until Seal, or turns to error at idleAt. It takes size, encryption, key (the
// account's default if "") and tags from want, and holds them against EC2's limits.
func (s *Server) Writable(want ebs.Snapshot, description string, idleAt time.Time) (ebs.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkTags(want.Tags); err != nil {
		return ebs.Snapshot{}, err
	}
	now, pending := s.now(), 1
	for _, p := range s.snapshots {
		if p.busy(now) {
			pending++
		}
	}
	if pending > s.rules.PendingInAccount {
		return ebs.Snapshot{}, refusal("PendingSnapshotLimitExceeded", "You have exceeded your maximum allowed pending snapshots of %d.", s.rules.PendingInAccount)
	}
	if err := s.checkRegion(1); err != nil {
		return ebs.Snapshot{}, err
	}
	p := s.keep(&snapshot{
		volume: NoVolume, spec: cluster.VolumeSpec{SizeGiB: want.SizeGiB},
		image: disk.Cut(disk.New(want.SizeGiB << 30))[0], encrypted: want.Encrypted, description: description,
		tags: map[string]string{}, set: &set{}, startedAt: now, visibleAt: now, completeAt: now.Add(never), frozenAt: now,
		unsealed: true, idleAt: idleAt,
	})
	maps.Copy(p.tags, want.Tags)
	if p.encrypted {
		p.kmsKey = cmp.Or(want.KMSKey, s.defaultKey())
	}
	return p.view(now), nil
}

// Extend lets a snapshot of Writable turn to error only at idleAt.
func (s *Server) Extend(id cluster.SnapshotID, idleAt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.snapshots[id]; ok {
		p.idleAt = idleAt
	}
}

// Seal gives a snapshot of Writable its content and completes it, which takes as long as for a volume with so much
// changed data. A snapshot that does not exist is ignored.
func (s *Server) Seal(id cluster.SnapshotID, image *disk.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.snapshots[id]
	if !ok || p.deleted {
		return
	}
	p.image, p.fullBytes = image, int64(float64(image.UsedBytes)*s.rules.ByteScale)
	p.unsealed, p.frozenAt = false, time.Time{}
	p.completeAt = s.now().Add(s.rules.SnapshotDuration(image.DirtyBytes, p.spec.SizeGiB))
}
