package ebstest

import (
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Cut is a record of one CreateSnapshots call: when its volumes were copied.
type Cut struct {
	Instance  cluster.InstanceID
	At        time.Time // virtual
	Snapshots []cluster.SnapshotID
}

func (s *Server) createSnapshots(req request) (any, error) {
	i, err := s.liveInstance(cluster.InstanceID(req.text("InstanceSpecification.InstanceId")))
	if err != nil {
		return nil, err
	}
	if i.terminated {
		return nil, refusal("IncorrectInstanceState", "The instance '%s' is terminated.", i.id)
	}
	volumes, err := s.included(i, req)
	if err != nil {
		return nil, err
	}
	tags, err := s.tags(req, "snapshot")
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	made, err := s.cut(volumes, tags, req.text("Description"))
	if err != nil {
		return nil, err
	}
	record := Cut{Instance: i.id, At: made[0].startedAt}
	answer := createSnapshotsAnswer{}
	for _, p := range made {
		record.Snapshots = append(record.Snapshots, p.id)
		answer.Snapshots = append(answer.Snapshots, s.snapshotInfoXML(p))
	}
	s.cuts = append(s.cuts, record)
	return answer, nil
}

// included are the volumes of an instance that a call asks for.
func (s *Server) included(i *instance, req request) ([]*volume, error) {
	excluded := req.list("InstanceSpecification.ExcludeDataVolumeId")
	attached := s.attached(i.id)
	for _, id := range excluded {
		if cluster.VolumeID(id) == i.boot {
			return nil, refusal("InvalidParameterValue", "The root volume '%s' cannot be excluded as a data volume; use ExcludeBootVolume.", id)
		}
		if !slices.ContainsFunc(attached, func(v *volume) bool { return string(v.id) == id }) {
			return nil, refusal("InvalidParameterValue", "The volume '%s' is not attached to instance '%s'.", id, i.id)
		}
	}
	volumes := slices.DeleteFunc(attached, func(v *volume) bool {
		return slices.Contains(excluded, string(v.id)) || (v.id == i.boot && req.flag("InstanceSpecification.ExcludeBootVolume"))
	})
	if len(volumes) > s.rules.VolumesPerSet {
		return nil, refusal("InvalidParameterValue", "The instance '%s' has more than %d volumes to snapshot.", i.id, s.rules.VolumesPerSet)
	}
	if len(volumes) == 0 {
		return nil, refusal("InvalidParameterCombination", "No volumes of instance '%s' are left to snapshot.", i.id)
	}
	return volumes, nil
}

func (s *Server) createSnapshot(req request) (any, error) {
	v, err := s.shownVolume(cluster.VolumeID(req.text("VolumeId")))
	if err != nil {
		return nil, err
	}
	tags, err := s.tags(req, "snapshot")
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	made, err := s.cut([]*volume{v}, tags, req.text("Description"))
	if err != nil {
		return nil, err
	}
	return createSnapshotAnswer{snapshotXML: s.snapshotXML(made[0])}, nil
}

func (s *Server) deleteSnapshot(req request) (any, error) {
	p, err := s.shownSnapshot(cluster.SnapshotID(req.text("SnapshotId")))
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	now := s.now()
	if p.locked(now) {
		return nil, refusal("SnapshotLocked", "The snapshot '%s' is locked and cannot be deleted.", p.id)
	}
	p.deleted, p.image = true, nil
	if p.copying != nil {
		p.copying.endedAt = now
	}
	for _, f := range p.fast {
		s.switchOff(f, now)
	}
	return simpleAnswer("DeleteSnapshot"), nil
}

func (s *Server) describeSnapshots(req request) (any, error) {
	now := s.now()
	owners, readers := s.named(req.list("Owner")), s.named(req.list("RestorableBy"))
	found, next, err := query[*snapshot]{
		prefix: "snap", ids: req.list("SnapshotId"),
		unknown: func(id string) error {
			return refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
		},
		all:     s.world.snapshotsIn(s.cfg.Region),
		id:      func(p *snapshot) string { return string(p.id) },
		visible: func(p *snapshot) bool { return p.visible(now) },
		allowed: func(p *snapshot) bool {
			return p.readableBy(s.cfg.Account) && (len(owners) == 0 || slices.Contains(owners, p.owner.cfg.Account)) &&
				(len(readers) == 0 || slices.ContainsFunc(readers, p.readableBy))
		},
		tags: s.shownTags,
		field: func(p *snapshot, name string) (string, bool) {
			switch name {
			case "snapshot-id":
				return string(p.id), true
			case "volume-id":
				return string(p.volume), true
			case "status":
				return string(p.state(now)), true
			case "start-time":
				return p.startedAt.UTC().Format("2006-01-02T15:04:05.000Z"), true
			case "owner-id":
				return p.owner.cfg.Account, true
			case "volume-size":
				return fmt.Sprint(p.spec.SizeGiB), true
			case "description":
				return p.description, true
			case "encrypted":
				return fmt.Sprint(p.encrypted), true
			case "storage-tier":
				return p.tier(now), true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeSnapshotsAnswer{NextToken: next}
	for _, p := range found {
		answer.Snapshots = append(answer.Snapshots, s.snapshotXML(p))
	}
	return answer, nil
}

// named are accounts, of which the caller may call itself "self".
func (s *Server) named(accounts []string) []string {
	for i, account := range accounts {
		if account == "self" {
			accounts[i] = s.cfg.Account
		}
	}
	return accounts
}

// shownTags are the tags of a snapshot that this account sees: those of its own.
func (s *Server) shownTags(p *snapshot) map[string]string {
	if p.owner != s {
		return nil
	}
	return p.tags
}
