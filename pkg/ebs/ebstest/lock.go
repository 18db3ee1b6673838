package ebstest

import (
	"cmp"
	"encoding/xml"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// The states of a lock, as EC2 reports them.
const (
	lockGovernance = "governance"
	lockCompliance = "compliance"
	lockCoolingOff = "compliance-cooloff"
	lockExpired    = "expired"
)

// lock keeps a snapshot from being deleted. Its duration runs from the snapshot's completion; one of a snapshot that
// fails is void.
type lock struct {
	compliance bool
	createdAt  time.Time
	days       int64     // 0 for an expiration date
	coolOff    int64     // hours
	date       time.Time // of expiration, unless days are given
}

// until is when a lock of the snapshot expires.
func (p *snapshot) until(l *lock) time.Time {
	if l.days == 0 {
		return l.date
	}
	return later(p.completeAt, l.createdAt).AddDate(0, 0, int(l.days))
}

func (p *snapshot) lockState(now time.Time) string {
	l := p.lock
	switch {
	case !now.Before(p.until(l)):
		return lockExpired
	case !l.compliance:
		return lockGovernance
	case now.Before(l.createdAt.Add(time.Duration(l.coolOff) * time.Hour)):
		return lockCoolingOff
	default:
		return lockCompliance
	}
}

// locked reports whether the snapshot cannot be deleted.
func (p *snapshot) locked(now time.Time) bool {
	return p.lock != nil && p.state(now) != ebs.SnapshotError && p.lockState(now) != lockExpired
}

func (s *Server) lockSnapshot(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	wanted, err := s.wantedLock(req)
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	now := s.now()
	switch {
	case p.state(now) != ebs.SnapshotPending && p.state(now) != ebs.SnapshotCompleted:
		return nil, refusal("IncorrectState", "Snapshot '%s' is '%s'.", p.id, p.state(now))
	case p.lock != nil && p.lockState(now) == lockCompliance &&
		(!wanted.compliance || req.has("CoolOffPeriod") || p.until(wanted).Before(p.until(p.lock))):
		return nil, refusal("OperationNotPermitted", "Snapshot '%s' is locked in compliance mode; its lock can only be made longer.", p.id)
	}
	p.lock = wanted
	return lockSnapshotAnswer{lockXML: s.lockXML(p)}, nil
}

func (s *Server) wantedLock(req request) (*lock, error) {
	l := &lock{compliance: req.text("LockMode") == lockCompliance, createdAt: s.now()}
	if !l.compliance && req.text("LockMode") != lockGovernance {
		return nil, refusal("InvalidParameterValue", "Value (%s) for parameter lockMode is invalid.", req.text("LockMode"))
	}
	var err error
	if l.days, err = req.number("LockDuration"); err != nil {
		return nil, err
	}
	if l.coolOff, err = req.number("CoolOffPeriod"); err != nil {
		return nil, err
	}
	switch {
	case req.has("CoolOffPeriod") && (!l.compliance || l.coolOff < 1 || l.coolOff > 72):
		return nil, refusal("InvalidParameterValue", "A cooling-off period of 1 to 72 hours is allowed, in compliance mode alone.")
	case req.has("LockDuration") == req.has("ExpirationDate"):
		return nil, refusal("InvalidParameterCombination", "Either LockDuration or ExpirationDate has to be given.")
	case req.has("ExpirationDate"):
		if l.date, err = time.Parse(time.RFC3339, req.text("ExpirationDate")); err != nil || !l.date.After(s.now()) {
			return nil, refusal("InvalidParameterValue", "Value (%s) for parameter expirationDate is invalid.", req.text("ExpirationDate"))
		}
	case l.days < 1 || l.days > 36500:
		return nil, refusal("InvalidParameterValue", "The lock duration has to be between 1 and 36500 days.")
	}
	return l, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *Server) unlockSnapshot(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	switch now := s.now(); {
	case !p.locked(now):
		return nil, refusal("InvalidRequest", "Snapshot '%s' is not locked.", p.id)
	case p.lockState(now) == lockCompliance:
		return nil, refusal("OperationNotPermitted", "Snapshot '%s' is locked in compliance mode.", p.id)
	}
	p.lock = nil
	return unlockSnapshotAnswer{ID: string(p.id)}, nil
}

func (s *Server) describeLockedSnapshots(req request) (any, error) {
	now := s.now()
	found, next, err := query[*snapshot]{
		prefix: "snap", ids: req.list("SnapshotId"),
		unknown: func(id string) error {
			return refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
		},
		all:     sorted(s.snapshots),
		id:      func(p *snapshot) string { return string(p.id) },
		visible: func(p *snapshot) bool { return p.visible(now) },
		tags:    func(p *snapshot) map[string]string { return p.tags },
		field: func(p *snapshot, name string) (string, bool) {
			if name != "lock-state" {
				return "", false
			}
			if p.lock == nil {
				return "", true
			}
			return p.lockState(now), true
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeLockedAnswer{NextToken: next}
	for _, p := range found {
		if p.lock != nil && p.state(now) != ebs.SnapshotError {
			answer.Snapshots = append(answer.Snapshots, s.lockXML(p))
		}
	}
	return answer, dryRun(req)
}

type lockXML struct {
	ID        string `xml:"snapshotId"`
	Owner     string `xml:"ownerId"`
	State     string `xml:"lockState"`
	Days      int64  `xml:"lockDuration"`
	CoolOff   int64  `xml:"coolOffPeriod,omitempty"`
	CoolUntil string `xml:"coolOffPeriodExpiresOn,omitempty"`
	Created   string `xml:"lockCreatedOn"`
	Starts    string `xml:"lockDurationStartTime,omitempty"`
	Expires   string `xml:"lockExpiresOn,omitempty"`
}

type (
	lockSnapshotAnswer struct {
		XMLName xml.Name `xml:"LockSnapshotResponse"`
		lockXML
	}
	unlockSnapshotAnswer struct {
		XMLName xml.Name `xml:"UnlockSnapshotResponse"`
		ID      string   `xml:"snapshotId"`
	}
	describeLockedAnswer struct {
		XMLName   xml.Name  `xml:"DescribeLockedSnapshotsResponse"`
		Snapshots []lockXML `xml:"snapshotSet>item"`
		NextToken string    `xml:"nextToken,omitempty"`
	}
)

// lockXML has no times of a duration that has not begun: the snapshot is pending.
func (s *Server) lockXML(p *snapshot) lockXML {
	now := s.now()
	out := lockXML{
		ID: string(p.id), Owner: s.cfg.Account, State: p.lockState(now), Created: stamp(p.lock.createdAt),
		Days: cmp.Or(p.lock.days, int64(p.lock.date.Sub(p.lock.createdAt).Hours()/24)), CoolOff: p.lock.coolOff,
	}
	if p.lock.coolOff != 0 {
		out.CoolUntil = stamp(p.lock.createdAt.Add(time.Duration(p.lock.coolOff) * time.Hour))
	}
	if p.state(now) == ebs.SnapshotCompleted {
		out.Starts, out.Expires = stamp(later(p.completeAt, p.lock.createdAt)), stamp(p.until(p.lock))
	}
	return out
}
