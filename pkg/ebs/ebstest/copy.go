package ebstest

import (
	"cmp"
	"encoding/xml"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// NoVolume is the source volume that EC2 reports for a copy.
const NoVolume = cluster.VolumeID("vol-ffffffff")

// lateCopy is the point of the fault plan that is asked once for each copy that EC2 is asked for, about what becomes
// of it later: Before turns it to error, with the code as its message, Stall stops its progress for good, and Slow
// makes it take that much longer.
const lateCopy = "ec2.CopySnapshot.late"

// keyMessage is the state message of a copy whose key EC2 could not use.
const keyMessage = "Given key ID is not accessible"

type copySnapshotAnswer struct {
	XMLName xml.Name `xml:"CopySnapshotResponse"`
	ID      string   `xml:"snapshotId"`
	Tags    []tagXML `xml:"tagSet>item"`
}

// copySnapshot copies into this region and account a snapshot that is this account's or shared with it. Tags, locks,
// permissions and fast restore are not copied. An encrypted snapshot's copy is encrypted, by the key that the call
// names, or the default one of this region. Keys and the presigned URL are looked at later.
func (s *Server) copySnapshot(req request) (any, error) {
	from := req.text("SourceRegion")
	if !slices.ContainsFunc(s.world.servers, func(o *Server) bool { return o.cfg.Region == from }) {
		return nil, refusal("InvalidParameterValue", "Value (%s) for parameter sourceRegion is invalid.", from)
	}
	source, err := s.sourceOf(from, cluster.SnapshotID(req.text("SourceSnapshotId")))
	if err != nil {
		return nil, err
	}
	tags, err := s.tags(req, "snapshot")
	if err != nil {
		return nil, err
	}
	minutes, err := req.number("CompletionDurationMinutes")
	switch {
	case err != nil:
		return nil, err
	case source.outpost != "":
		return nil, refusal("InvalidParameterValue", "Snapshot '%s' is on an Outpost and cannot be copied.", source.id)
	case req.has("KmsKeyId") && !req.flag("Encrypted"):
		return nil, refusal("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	case req.has("CompletionDurationMinutes") && (minutes < 15 || minutes > 48*60 || minutes%15 != 0):
		return nil, refusal("InvalidParameterValue", "Value (%d) for parameter completionDurationMinutes is invalid.", minutes)
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	rate, err := s.copyRate(source, minutes)
	if err != nil {
		return nil, err
	}
	if err := s.checkRegion(1); err != nil {
		return nil, err
	}
	now := s.now()
	p := &snapshot{
		volume: NoVolume, image: source.image, spec: source.spec, fullBytes: source.fullBytes,
		encrypted: source.encrypted || req.flag("Encrypted") || s.encrypts, description: req.text("Description"), tags: tags, set: &set{},
		copying:   &copying{source: source, lineage: source.lineage(), minutes: minutes, rate: rate, at: s},
		startedAt: now, visibleAt: now.Add(s.draw(s.rules.Invisible)), completeAt: now.Add(never),
	}
	if p.encrypted {
		p.kmsKey = s.keyNamed(cmp.Or(req.text("KmsKeyId"), s.defaultKey()))
	}
	s.keep(p)
	s.strikeCopy(p, req)
	s.copies = append(s.copies, p)
	return copySnapshotAnswer{ID: string(p.id), Tags: tagsXML(tags)}, nil
}

// copyRate is at how many bytes per second a new copy may run. A time-based one takes its share of what the pair of
// regions has left, up to the most of one copy; if nothing is left it is refused.
func (s *Server) copyRate(source *snapshot, minutes int64) (float64, error) {
	if len(s.copies) >= s.rules.Copies.InProgress {
		return 0, refusal("ResourceLimitExceeded", "Too many snapshot copies in progress. The limit is %d for this destination region.", s.rules.Copies.InProgress)
	}
	if minutes == 0 {
		return s.rules.Copies.Rate, nil
	}
	left := s.rules.Copies.PairRate
	for _, p := range s.copies {
		if c := p.copying; c.minutes != 0 && c.source.owner.cfg.Region == source.owner.cfg.Region {
			left -= c.rate
		}
	}
	if left < 1 {
		return 0, refusal("ResourceLimitExceeded", "The cumulative throughput of time-based copies from %s to %s is in use.", source.owner.cfg.Region, s.cfg.Region)
	}
	wanted := float64(source.fullBytes) / (float64(minutes) * 60)
	return max(1, min(wanted, left, s.rules.Copies.MostRate)), nil
}

// strikeCopy decides whether a copy that EC2 accepts will fail.
func (s *Server) strikeCopy(p *snapshot, req request) {
	source, message := p.copying.source, ""
	switch {
	case source.encrypted && !s.signedFor(req):
		message = "The presigned URL is not valid"
	case source.encrypted && !source.owner.keyHome(source.kmsKey).usableBy(source.kmsKey, s.cfg.Account),
		p.encrypted && !s.canUse(p.kmsKey):
		message = keyMessage
	}
	if late := req.late; late != nil {
		switch late.Position {
		case fault.Before:
			message = cmp.Or(message, late.Code, "An internal error occurred.")
		case fault.Stall:
			p.copying.delay = never
		case fault.Slow:
			p.copying.delay = late.Delay
		case fault.After: // the data is there; there is no answer to be lost
		}
	}
	if message != "" {
		p.copying.failAt, p.copying.message = p.startedAt.Add(s.draw(s.rules.Copies.Fails)), message
	}
}

// signedFor reports whether the call has a URL of CopySnapshot that is signed for the source's region.
func (s *Server) signedFor(req request) bool {
	u, err := url.Parse(req.text("PresignedUrl"))
	if err != nil {
		return false
	}
	q := u.Query()
	return q.Get("Action") == "CopySnapshot" && q.Get("SourceSnapshotId") == req.text("SourceSnapshotId") &&
		q.Get("DestinationRegion") == s.cfg.Region && q.Get("X-Amz-Signature") != "" &&
		strings.Contains(q.Get("X-Amz-Credential"), "/"+req.text("SourceRegion")+"/ec2/")
}

// keep puts a new snapshot into the account. The caller holds the lock.
func (s *Server) keep(p *snapshot) *snapshot {
	p.id, p.owner, p.sharedWith = cluster.SnapshotID(s.newID("snap")), s, map[string]bool{}
	s.snapshots[p.id] = p
	return p
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

// AddForeignSnapshots puts so many snapshots of another's volumes into the account, pending for that
// long: they count against its limits and carry no tags.
func (s *Server) AddForeignSnapshots(count int, pending time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for range count {
		s.keep(&snapshot{
			volume: cluster.VolumeID(s.newID("vol")), spec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, tags: map[string]string{},
			set: &set{}, startedAt: now, visibleAt: now, completeAt: now.Add(pending),
		})
	}
}
