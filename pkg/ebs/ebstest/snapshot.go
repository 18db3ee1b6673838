package ebstest

import (
	"maps"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// set is what one CreateSnapshots call made: if one snapshot fails, all do.
type set struct {
	failed  bool
	message string
}

// snapshot is an EBS snapshot. Its state follows from its times and its set.
type snapshot struct {
	id          cluster.SnapshotID
	owner       *Server
	volume      cluster.VolumeID
	image       *disk.Image
	spec        cluster.VolumeSpec
	fullBytes   int64
	encrypted   bool
	kmsKey      string
	outpost     string // its ARN
	description string
	tags        map[string]string
	set         *set

	startedAt, visibleAt, completeAt time.Time
	deleted                          bool

	sharedWith map[string]bool // accounts
	copying    *copying        // nil unless by CopySnapshot
	unsealed   bool            // of Writable
	idleAt     time.Time       // when an unsealed one turns to error
	lock       *lock
	fast       map[cluster.Zone]*fastRestore
	tiering    *tiering          // nil if it was never archived
	forced     ebs.SnapshotState // that EC2 reports, whatever is true; "" is the true one
	frozenAt   time.Time         // of its progress, zero unless it makes none
}

func (p *snapshot) state(now time.Time) ebs.SnapshotState {
	switch {
	case p.forced != "":
		return p.forced
	case p.set.failed || (p.unsealed && !now.Before(p.idleAt)):
		return ebs.SnapshotError
	case now.Before(p.completeAt) || p.frozen():
		return ebs.SnapshotPending
	default:
		return ebs.SnapshotCompleted
	}
}

func (p *snapshot) frozen() bool { return !p.frozenAt.IsZero() && p.frozenAt.Before(p.completeAt) }

func (p *snapshot) progress(now time.Time) int {
	if p.frozen() {
		now = p.frozenAt
	}
	all := p.completeAt.Sub(p.startedAt)
	if all <= 0 || !now.Before(p.completeAt) {
		return 100
	}
	return max(0, min(99, int(100*now.Sub(p.startedAt)/all)))
}

func (p *snapshot) visible(now time.Time) bool { return !p.deleted && !now.Before(p.visibleAt) }

// busy reports whether the snapshot counts against the limits of pending ones: deleting it does not free
// its place before its time, and a failed one keeps its place until it is deleted.
func (p *snapshot) busy(now time.Time) bool {
	if p.unsealed {
		return !p.deleted
	}
	return p.copying == nil && (now.Before(p.completeAt) || ((p.set.failed || p.frozen()) && !p.deleted))
}

func (p *snapshot) view(now time.Time) ebs.Snapshot {
	out := ebs.Snapshot{
		ID: p.id, Volume: p.volume, State: p.state(now), Message: p.set.message,
		Progress: p.progress(now), StartedAt: p.startedAt, SizeGiB: p.spec.SizeGiB,
		FullBytes: p.fullBytes, Encrypted: p.encrypted, KMSKey: p.kmsKey, Owner: p.owner.cfg.Account, Tags: maps.Clone(p.tags),
		Archived: p.tier(now) == tierArchive,
	}
	if out.State == ebs.SnapshotCompleted {
		out.CompletedAt = p.completeAt
	}
	return out
}

// cut makes snapshots of all volumes at the same instant, or none. The caller holds the lock.
func (s *Server) cut(volumes []*volume, tags map[string]string, description string) ([]*snapshot, error) {
	now := s.now()
	if err := s.checkCut(volumes, now); err != nil {
		return nil, err
	}
	devices := make([]*disk.Device, len(volumes))
	for i, v := range volumes {
		devices[i] = v.device
	}
	group := &set{}
	made := make([]*snapshot, len(volumes))
	for i, image := range disk.Cut(devices...) {
		v := volumes[i] //nolint:gosec // there is an image for each device
		v.lastCut = now
		made[i] = s.keep(&snapshot{
			volume: v.id, image: image, spec: v.spec,
			fullBytes: int64(float64(image.UsedBytes) * s.rules.ByteScale),
			encrypted: v.encrypted, kmsKey: v.kmsKey, description: description, tags: maps.Clone(tags), set: group,
			startedAt: now, visibleAt: now.Add(s.draw(s.rules.Invisible)),
			completeAt: now.Add(s.rules.SnapshotDuration(image.DirtyBytes, v.spec.SizeGiB)),
		})
	}
	return made, nil
}

func (s *Server) checkCut(volumes []*volume, now time.Time) error {
	pending := map[cluster.VolumeID]int{}
	all := 0
	for _, p := range s.snapshots {
		if p.busy(now) {
			pending[p.volume]++
			all++
		}
	}
	for _, v := range volumes {
		switch state := v.state(now); {
		case state != ebs.VolumeInUse && state != ebs.VolumeAvailable:
			return refusal("IncorrectState", "The volume '%s' is '%s'.", v.id, state)
		case !v.lastCut.IsZero() && now.Sub(v.lastCut) < s.rules.SnapshotSpacing:
			return refusal("SnapshotCreationPerVolumeRateExceeded", "The maximum per volume CreateSnapshot request rate has been exceeded. Use an increasing or variable sleep interval between requests.")
		case pending[v.id] >= s.pendingOf(v):
			return refusal("ConcurrentSnapshotLimitExceeded", "Maximum allowed in-progress snapshots for a single volume exceeded.")
		}
	}
	if err := s.checkRegion(len(volumes)); err != nil {
		return err
	}
	if all+len(volumes) > s.rules.PendingInAccount {
		return refusal("PendingSnapshotLimitExceeded", "You have exceeded your maximum allowed pending snapshots of %d.", s.rules.PendingInAccount)
	}
	return nil
}

// pendingOf is how many snapshots of a volume may be pending at a time.
func (s *Server) pendingOf(v *volume) int {
	if v.spec.Type == "st1" || v.spec.Type == "sc1" {
		return s.rules.PendingPerColdOne
	}
	return s.rules.PendingPerVolume
}

// shownSnapshot is a snapshot that a call over the wire can see already.
func (s *Server) shownSnapshot(id cluster.SnapshotID) (*snapshot, error) {
	if err := wellFormed("snap", string(id)); err != nil {
		return nil, err
	}
	p, ok := s.snapshots[id]
	if !ok || !p.visible(s.now()) {
		return nil, refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
	}
	return p, nil
}

// wellFormed refuses what cannot be an id.
func wellFormed(prefix, id string) error {
	hex, ok := strings.CutPrefix(id, prefix+"-")
	if ok && (len(hex) == 8 || len(hex) == 17) && strings.Trim(hex, "0123456789abcdef") == "" {
		return nil
	}
	code := map[string]string{
		"vol": "InvalidVolumeID.Malformed", "snap": "InvalidSnapshotID.Malformed", "i": "InvalidInstanceID.Malformed",
	}[prefix]
	return refusal(code, "Invalid id: %q (expecting \"%s-...\")", id, prefix)
}
