package ebstest

import (
	"cmp"
	"encoding/xml"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// NoVolume is the source volume that EC2 reports for a copy.
const NoVolume = cluster.VolumeID("vol-ffffffff")

type copySnapshotAnswer struct {
	XMLName xml.Name `xml:"CopySnapshotResponse"`
	ID      string   `xml:"snapshotId"`
	Tags    []tagXML `xml:"tagSet>item"`
}

// copySnapshot copies within the region: this account has no other. Tags, locks and fast restore are not
// copied; an encrypted snapshot's copy stays encrypted, by the key that the call names.
func (s *Server) copySnapshot(req request) (any, error) {
	if from := req.text("SourceRegion"); from != s.cfg.Region {
		return nil, refusal("InvalidParameterValue", "Value (%s) for parameter sourceRegion is invalid.", from)
	}
	source, err := s.sourceOf(cluster.SnapshotID(req.text("SourceSnapshotId")))
	if err != nil {
		return nil, err
	}
	tags, err := s.tags(req, "snapshot")
	if err != nil {
		return nil, err
	}
	if req.has("KmsKeyId") && !req.flag("Encrypted") {
		return nil, refusal("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	now := s.now()
	running := 0
	for _, p := range s.snapshots {
		if p.copied && !p.deleted && now.Before(p.completeAt) {
			running++
		}
	}
	if running >= s.rules.CopiesInProgress {
		return nil, refusal("ResourceLimitExceeded", "Too many snapshot copies in progress. The limit is %d for this destination region.", s.rules.CopiesInProgress)
	}
	if err := s.checkRegion(1); err != nil {
		return nil, err
	}
	p := &snapshot{
		id: cluster.SnapshotID(s.newID("snap")), volume: NoVolume, image: source.image, spec: source.spec,
		fullBytes: source.fullBytes, encrypted: source.encrypted || req.flag("Encrypted"), kmsKey: source.kmsKey,
		description: req.text("Description"), tags: tags, set: &set{}, copied: true,
		startedAt: now, visibleAt: now.Add(s.draw(s.rules.Invisible)),
		completeAt: now.Add(time.Duration(float64(source.fullBytes) / max(1, s.rules.CopyRate) * float64(time.Second))),
	}
	if p.encrypted {
		p.kmsKey = cmp.Or(req.text("KmsKeyId"), p.kmsKey, s.defaultKey())
	}
	s.snapshots[p.id] = p
	return copySnapshotAnswer{ID: string(p.id), Tags: tagsXML(tags)}, nil
}

// checkRegion holds further snapshots against the region's quota.
func (s *Server) checkRegion(more int) error {
	for _, p := range s.snapshots {
		if !p.deleted {
			more++
		}
	}
	if more > s.rules.SnapshotsInRegion {
		return refusal("SnapshotLimitExceeded", "You have exceeded your maximum allowed snapshots of %d.", s.rules.SnapshotsInRegion)
	}
	return nil
}

// AddForeignSnapshots puts so many snapshots of somebody else's volumes into the account, pending for that
// long: they count against its limits and carry no tags.
func (s *Server) AddForeignSnapshots(count int, pending time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for range count {
		id := cluster.SnapshotID(s.newID("snap"))
		s.snapshots[id] = &snapshot{
			id: id, volume: cluster.VolumeID(s.newID("vol")), spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, tags: map[string]string{},
			set: &set{}, startedAt: now, visibleAt: now, completeAt: now.Add(pending),
		}
	}
}
