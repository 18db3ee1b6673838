package ebstest

import (
	"encoding/xml"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// The operations that move a snapshot between the tiers, as EC2 names them.
const (
	archival         = "archival"
	temporaryRestore = "temporary-restore"
	permanentRestore = "permanent-restore"
)

const (
	tierStandard = "standard"
	tierArchive  = "archive"
)

// tiering is the last operation that moved a snapshot between the tiers. Its state follows from its times.
type tiering struct {
	operation  string
	startedAt  time.Time
	endsAt     time.Time
	archivedAt time.Time // when the last archival was completed
	days       int64     // of a temporary restore
	expiresAt  time.Time // of a temporary restore
}

// tier is where a snapshot is: it can be used until an archival is completed, and again once a restore is; a temporary
// one until it expires.
func (p *snapshot) tier(now time.Time) string {
	g := p.tiering
	switch {
	case g == nil,
		g.operation == archival && now.Before(g.endsAt),
		g.operation == permanentRestore && !now.Before(g.endsAt),
		p.onLoan(now):
		return tierStandard
	default:
		return tierArchive
	}
}

// onLoan reports whether a temporary restore has ended and not expired.
func (p *snapshot) onLoan(now time.Time) bool {
	g := p.tiering
	return g != nil && g.operation == temporaryRestore && !now.Before(g.endsAt) && now.Before(g.expiresAt)
}

// usable refuses a snapshot that is in the archive tier, for what EC2 makes of those in the standard tier alone.
func (s *Server) usable(p *snapshot) error {
	if p.tier(s.now()) == tierArchive {
		return refusal("IncorrectState", "Snapshot '%s' is in the archive tier.", p.id)
	}
	return nil
}

// moving counts the own snapshots that are being archived, or else restored.
func (s *Server) moving(archive bool, now time.Time) (n int) {
	for _, p := range s.snapshots {
		if g := p.tiering; g != nil && !p.deleted && now.Before(g.endsAt) && (g.operation == archival) == archive {
			n++
		}
	}
	return n
}

// modifySnapshotTier archives an own snapshot, which takes hours and cannot be cancelled.
func (s *Server) modifySnapshotTier(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	now, archived := s.now(), 0
	for _, other := range s.snapshots {
		if !other.deleted && other.volume == p.volume && other.volume != NoVolume && other.tier(now) == tierArchive {
			archived++
		}
	}
	switch state := p.state(now); {
	case req.has("StorageTier") && req.text("StorageTier") != tierArchive:
		return nil, refusal("InvalidParameterValue", "Value (%s) for parameter storageTier is invalid.", req.text("StorageTier"))
	case state != ebs.SnapshotCompleted:
		return nil, refusal("IncorrectState", "Snapshot '%s' is '%s'.", p.id, state)
	case p.tier(now) == tierArchive || p.onLoan(now) || p.tiering != nil && now.Before(p.tiering.endsAt):
		return nil, refusal("IncorrectState", "Snapshot '%s' is archived, or being archived.", p.id)
	case s.moving(true, now) >= s.rules.Tiers.Archivals, archived >= s.rules.Tiers.PerVolume:
		return nil, refusal("ResourceLimitExceeded", "You have exceeded your maximum of archived snapshots, or of those being archived.")
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	p.tiering = &tiering{operation: archival, startedAt: now, endsAt: now.Add(s.rules.Tiers.Archival)}
	s.archiving = append(s.archiving, p)
	return modifyTierAnswer{ID: string(p.id), Started: stamp(now)}, nil
}

// settleTiers ends the archivals whose time has come: sharing and fast restore are switched off by that.
func (s *Server) settleTiers(now time.Time) {
	s.archiving = slices.DeleteFunc(s.archiving, func(p *snapshot) bool {
		if now.Before(p.tiering.endsAt) {
			return false
		}
		s.archived(p)
		return true
	})
}

func (s *Server) archived(p *snapshot) {
	p.tiering.archivedAt = p.tiering.endsAt
	clear(p.sharedWith)
	for _, f := range p.fast {
		s.switchOff(f, p.tiering.endsAt)
	}
}

// restoreSnapshotTier brings an archived snapshot back, for some days or for good, or changes that of one that is back for
// some days, at once.
func (s *Server) restoreSnapshotTier(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	days, err := req.number("TemporaryRestoreDays")
	now, permanent := s.now(), req.flag("PermanentRestore")
	loan := p.onLoan(now)
	switch {
	case err != nil:
		return nil, err
	case permanent == req.has("TemporaryRestoreDays"):
		return nil, refusal("InvalidParameterCombination", "Either TemporaryRestoreDays or PermanentRestore has to be given.")
	case !permanent && days < 1:
		return nil, refusal("InvalidParameterValue", "Value (%d) for parameter temporaryRestoreDays is invalid.", days)
	case !loan && (p.tier(now) != tierArchive || now.Before(p.tiering.endsAt)):
		return nil, refusal("IncorrectState", "Snapshot '%s' is not in the archive tier, or being restored.", p.id)
	case !loan && s.moving(false, now) >= s.rules.Tiers.Restores:
		return nil, refusal("ResourceLimitExceeded", "You have exceeded your maximum of snapshots being restored.")
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	g := &tiering{operation: permanentRestore, startedAt: now, endsAt: now, archivedAt: p.tiering.archivedAt, days: days}
	if !loan {
		g.endsAt = now.Add(s.rules.Tiers.Restore)
	}
	if !permanent {
		g.operation, g.expiresAt = temporaryRestore, g.endsAt.AddDate(0, 0, int(days))
	}
	p.tiering = g
	return restoreTierAnswer{ID: string(p.id), Started: stamp(now), Days: days, Permanent: permanent}, nil
}

func (s *Server) describeSnapshotTierStatus(req request) (any, error) {
	now := s.now()
	found, next, err := query[*snapshot]{
		prefix:  "snap",
		all:     sorted(s.snapshots),
		id:      func(p *snapshot) string { return string(p.id) },
		visible: func(p *snapshot) bool { return p.visible(now) },
		tags:    func(p *snapshot) map[string]string { return p.tags },
		field: func(p *snapshot, name string) (string, bool) {
			switch name {
			case "snapshot-id":
				return string(p.id), true
			case "volume-id":
				return string(p.volume), true
			case "last-tiering-operation":
				return p.lastTiering(now), true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeTierAnswer{NextToken: next}
	for _, p := range found {
		answer.Statuses = append(answer.Statuses, s.tierXML(p))
	}
	return answer, dryRun(req)
}

// lastTiering is the state of the last operation, "" if there was none.
func (p *snapshot) lastTiering(now time.Time) string {
	switch g := p.tiering; {
	case g == nil:
		return ""
	case now.Before(g.endsAt):
		return g.operation + "-in-progress"
	default:
		return g.operation + "-completed"
	}
}

// expiry is when a snapshot on loan goes back to the archive tier, "" for any other.
func (p *snapshot) expiry(now time.Time) string {
	if !p.onLoan(now) {
		return ""
	}
	return stamp(p.tiering.expiresAt)
}

type tierXML struct {
	ID       string   `xml:"snapshotId"`
	Volume   string   `xml:"volumeId"`
	Status   string   `xml:"status"`
	Owner    string   `xml:"ownerId"`
	Tier     string   `xml:"storageTier"`
	Last     string   `xml:"lastTieringOperationStatus,omitempty"`
	Started  string   `xml:"lastTieringStartTime,omitempty"`
	Progress string   `xml:"lastTieringProgress,omitempty"`
	Archived string   `xml:"archivalCompleteTime,omitempty"`
	Expires  string   `xml:"restoreExpiryTime,omitempty"`
	Tags     []tagXML `xml:"tagSet>item"`
}

type (
	modifyTierAnswer struct {
		XMLName xml.Name `xml:"ModifySnapshotTierResponse"`
		ID      string   `xml:"snapshotId"`
		Started string   `xml:"tieringStartTime"`
	}
	restoreTierAnswer struct {
		XMLName   xml.Name `xml:"RestoreSnapshotTierResponse"`
		ID        string   `xml:"snapshotId"`
		Started   string   `xml:"restoreStartTime"`
		Days      int64    `xml:"restoreDuration,omitempty"`
		Permanent bool     `xml:"isPermanentRestore"`
	}
	describeTierAnswer struct {
		XMLName   xml.Name  `xml:"DescribeSnapshotTierStatusResponse"`
		Statuses  []tierXML `xml:"snapshotTierStatusSet>item"`
		NextToken string    `xml:"nextToken,omitempty"`
	}
)

func (s *Server) tierXML(p *snapshot) tierXML {
	now := s.now()
	out := tierXML{
		ID: string(p.id), Volume: string(p.volume), Status: string(p.state(now)), Owner: s.cfg.Account, Tier: p.tier(now),
		Last: p.lastTiering(now), Expires: p.expiry(now), Tags: tagsXML(p.tags),
	}
	if g := p.tiering; g != nil {
		out.Started, out.Archived, out.Progress = stamp(g.startedAt), stamp(g.archivedAt), "100"
		if now.Before(g.endsAt) {
			out.Progress = fmt.Sprint(int(100 * now.Sub(g.startedAt) / g.endsAt.Sub(g.startedAt)))
		}
	}
	return out
}
