package ebstest

import (
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// fastRestore is fast snapshot restore of one snapshot in one zone. Its state follows from its times.
type fastRestore struct {
	snapshot *snapshot
	zone     cluster.Zone

	enablingAt, optimizingAt, enabledAt time.Time
	disablingAt, disabledAt             time.Time // zero until it is switched off

	aged  time.Duration // by which the reported enabledAt is earlier
	spent float64       // credits that volumes took since enabledAt
}

func (f *fastRestore) state(now time.Time) ebs.FastRestoreState {
	switch {
	case !f.disablingAt.IsZero() && !now.Before(f.disabledAt):
		return ebs.FastRestoreDisabled
	case !f.disablingAt.IsZero():
		return ebs.FastRestoreDisabling
	case now.Before(f.optimizingAt):
		return ebs.FastRestoreEnabling
	case now.Before(f.enabledAt):
		return ebs.FastRestoreOptimizing
	default:
		return ebs.FastRestoreEnabled
	}
}

// on reports whether it is billed and counts against the quota.
func (f *fastRestore) on() bool { return f.disablingAt.IsZero() }

// credits is how many volumes can be made now. The bucket is empty when it becomes enabled, holds
// MAX(1, MIN(10, 1024 ÷ GiB)) and is filled by MIN(10, 1024 ÷ GiB) an hour.
func (f *fastRestore) credits(now time.Time) float64 {
	if f.state(now) != ebs.FastRestoreEnabled {
		return 0
	}
	fill := min(10, 1024/float64(f.snapshot.spec.SizeGiB))
	grown := fill * (f.aged + now.Sub(f.enabledAt)).Hours()
	if most := max(1, fill); grown-f.spent > most {
		f.spent = grown - most // what did not fit is lost
	}
	return grown - f.spent
}

// FastRestoreCredits is how many fast volumes could be made of a snapshot in a zone now: what CloudWatch
// reports as FastSnapshotRestoreCreditsBalance.
func (s *Server) FastRestoreCredits(id cluster.SnapshotID, zone cluster.Zone) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.snapshots[id]; ok && p.fast[zone] != nil {
		return p.fast[zone].credits(s.now())
	}
	return 0
}

// FastRestores lists what is switched on, and so is billed, by snapshot and zone.
func (s *Server) FastRestores() []ebs.FastRestore {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []ebs.FastRestore
	for _, f := range s.allFastRestores() {
		if f.on() {
			out = append(out, ebs.FastRestore{
				Snapshot: f.snapshot.id, Zone: f.zone, State: f.state(s.now()), EnabledAt: f.enabledAt,
			})
		}
	}
	return out
}

func (s *Server) allFastRestores() []*fastRestore {
	var all []*fastRestore
	for _, p := range sorted(s.snapshots) {
		all = append(all, sorted(p.fast)...)
	}
	return all
}

// takeCredit reports whether a volume of the snapshot in the zone is made fast, and pays for it.
func (p *snapshot) takeCredit(zone cluster.Zone, now time.Time) bool {
	f := p.fast[zone]
	if f == nil || f.credits(now) < 1 {
		return false
	}
	f.spent++
	return true
}

// fastRestoreCall is what EnableFastSnapshotRestores and DisableFastSnapshotRestores have in common. All of the answer is of the
// instant now, as scaled seconds may pass between two looks at the clock.
func (s *Server) fastRestoreCall(req request, now time.Time, one func(*snapshot, cluster.Zone) (*fastRestore, *apiError)) (answer fastRestoresAnswer, err error) {
	ids, zones := req.list("SourceSnapshotId"), req.list("AvailabilityZone")
	for _, id := range req.list("AvailabilityZoneId") {
		zone, err := s.zoneOfID(id)
		if err != nil {
			return answer, err
		}
		zones = append(zones, string(zone))
	}
	switch {
	case len(ids) == 0:
		return answer, refusal("MissingParameter", "The request must contain the parameter SourceSnapshotId")
	case len(zones) == 0:
		return answer, refusal("MissingParameter", "The request must contain the parameter AvailabilityZone")
	case len(ids) > s.rules.FastRestore.IDsInCall:
		return answer, refusal("InvalidRequest", "Number of values of parameter SourceSnapshotIds must be less than or equal to %d.", s.rules.FastRestore.IDsInCall)
	}
	for _, zone := range zones {
		if err := s.checkZone(cluster.Zone(zone)); err != nil {
			return answer, err
		}
	}
	if err := dryRun(req); err != nil {
		return answer, err
	}
	for _, id := range ids {
		refused := fastRestoreErrorXML{Snapshot: id}
		for _, zone := range zones {
			p, err := s.shownSnapshot(cluster.SnapshotID(id))
			var (
				done *fastRestore
				why  *apiError
			)
			if err != nil {
				why = refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
			} else {
				done, why = one(p, cluster.Zone(zone))
			}
			if why != nil {
				refused.Errors = append(refused.Errors, fastRestoreZoneErrorXML{Zone: zone, Code: why.code, Message: why.message})
				continue
			}
			answer.Done = append(answer.Done, s.fastRestoreXML(done, now))
		}
		if len(refused.Errors) > 0 {
			answer.Refused = append(answer.Refused, refused)
		}
	}
	return answer, nil
}

func (s *Server) enableFastRestores(req request) (any, error) {
	now := s.now()
	answer, err := s.fastRestoreCall(req, now, func(p *snapshot, zone cluster.Zone) (*fastRestore, *apiError) {
		if f := p.fast[zone]; f != nil && f.on() {
			return f, nil
		}
		if state := p.state(now); state != ebs.SnapshotCompleted {
			return nil, refusal("InvalidSnapshot.InvalidState", "Snapshot '%s' is '%s'.", p.id, state)
		}
		if s.usable(p) != nil {
			return nil, refusal("InvalidSnapshot.InvalidState", "Snapshot '%s' is in the archive tier.", p.id)
		}
		if enabled := s.fastSnapshots(); !enabled[p.id] && len(enabled) >= s.rules.FastRestore.Snapshots {
			return nil, refusal("FastSnapshotRestoreLimitExceeded", "You have exceeded your maximum of %d snapshots with fast snapshot restore in this region.", s.rules.FastRestore.Snapshots)
		}
		if p.fast == nil {
			p.fast = map[cluster.Zone]*fastRestore{}
		}
		optimizing := now.Add(s.rules.FastRestore.Switching)
		work := time.Duration(float64(s.rules.FastRestore.PerTiB) * float64(p.spec.SizeGiB) / 1024)
		p.fast[zone] = &fastRestore{
			snapshot: p, zone: zone, enablingAt: now, optimizingAt: optimizing, enabledAt: optimizing.Add(work), aged: s.rules.FastRestore.Aged,
		}
		return p.fast[zone], nil
	})
	answer.XMLName.Local = "EnableFastSnapshotRestoresResponse"
	return answer, err
}

// fastSnapshots are those that count against the quota: a snapshot counts once, in however many zones.
func (s *Server) fastSnapshots() map[cluster.SnapshotID]bool {
	on := map[cluster.SnapshotID]bool{}
	for id, p := range s.snapshots {
		if slices.ContainsFunc(slices.Collect(maps.Values(p.fast)), (*fastRestore).on) {
			on[id] = true
		}
	}
	return on
}

func (s *Server) disableFastRestores(req request) (any, error) {
	now := s.now()
	answer, err := s.fastRestoreCall(req, now, func(p *snapshot, zone cluster.Zone) (*fastRestore, *apiError) {
		f := p.fast[zone]
		if f == nil {
			return nil, refusal("InvalidRequest", "Fast snapshot restore is not enabled for %s in %s.", p.id, zone)
		}
		s.switchOff(f, now)
		return f, nil
	})
	answer.XMLName.Local = "DisableFastSnapshotRestoresResponse"
	return answer, err
}

func (s *Server) switchOff(f *fastRestore, now time.Time) {
	if f.on() {
		f.disablingAt, f.disabledAt = now, now.Add(s.rules.FastRestore.Switching)
	}
}

func (s *Server) describeFastRestores(req request) (any, error) {
	now := s.now()
	found, next, err := query[*fastRestore]{
		all:     s.allFastRestores(),
		id:      func(f *fastRestore) string { return string(f.snapshot.id) + " " + string(f.zone) },
		visible: func(f *fastRestore) bool { return !f.snapshot.deleted || f.state(now) == ebs.FastRestoreDisabling },
		tags:    func(*fastRestore) map[string]string { return nil },
		field: func(f *fastRestore, name string) (string, bool) {
			switch name {
			case "snapshot-id":
				return string(f.snapshot.id), true
			case "availability-zone":
				return string(f.zone), true
			case "availability-zone-id":
				return s.zoneID(f.zone), true
			case "state":
				return string(f.state(now)), true
			case "owner-id":
				return s.cfg.Account, true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeFastRestoresAnswer{NextToken: next}
	for _, f := range found {
		answer.Pairs = append(answer.Pairs, s.fastRestoreXML(f, now))
	}
	return answer, dryRun(req)
}

// fastRestoreXML reports only what has happened already.
func (s *Server) fastRestoreXML(f *fastRestore, now time.Time) fastRestoreXML {
	past := func(t time.Time) string {
		if t.IsZero() || t.After(now) || (!f.disablingAt.IsZero() && t.After(f.disablingAt) && t != f.disabledAt) {
			return ""
		}
		return stamp(t)
	}
	reason := "Client.UserInitiated"
	if !now.Before(f.optimizingAt) && f.on() {
		reason += " - Lifecycle state transition"
	}
	enabled := past(f.enabledAt)
	if enabled != "" {
		enabled = stamp(f.enabledAt.Add(-f.aged))
	}
	return fastRestoreXML{
		Snapshot: string(f.snapshot.id), Zone: string(f.zone), ZoneID: s.zoneID(f.zone), State: string(f.state(now)), Reason: reason,
		Owner: s.cfg.Account, Enabling: past(f.enablingAt), Optimizing: past(f.optimizingAt), Enabled: enabled,
		Disabling: past(f.disablingAt), Disabled: past(f.disabledAt),
	}
}
