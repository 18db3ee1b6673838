package ebstest

import (
	"encoding/xml"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// modification is a volume's newest change. The new parameters hold from appliedAt on.
type modification struct {
	volume                        *volume
	from, to                      cluster.VolumeSpec
	startedAt, appliedAt, endedAt time.Time
	failed                        string // EC2's reason
}

func (m *modification) state(now time.Time) ebs.ModificationState {
	switch {
	case m.failed != "":
		return ebs.ModificationFailed
	case now.Before(m.appliedAt):
		return ebs.ModificationModifying
	case now.Before(m.endedAt):
		return ebs.ModificationOptimizing
	default:
		return ebs.ModificationCompleted
	}
}

func (m *modification) progress(now time.Time) int {
	all := m.endedAt.Sub(m.startedAt)
	if all <= 0 || !now.Before(m.endedAt) {
		return 100
	}
	return max(0, min(99, int(100*now.Sub(m.startedAt)/all)))
}

// settle brings everything of the world to where it is now. The caller holds the lock.
func (s *Server) settle() {
	now := s.now()
	for _, each := range s.world.servers {
		each.settleVolumes(now)
		each.settleTiers(now)
		each.settleCopies(now)
	}
}

// settleVolumes gives volumes the parameters whose time has come.
func (s *Server) settleVolumes(now time.Time) {
	waiting := s.modifying[:0]
	for _, m := range s.modifying {
		switch {
		case m.failed != "":
		case now.Before(m.appliedAt):
			waiting = append(waiting, m)
		default:
			m.volume.spec = m.to
		}
	}
	s.modifying = waiting
}

func (s *Server) modifyVolume(req request) (any, error) {
	v, err := s.shownVolume(cluster.VolumeID(req.text("VolumeId")))
	if err != nil {
		return nil, err
	}
	to, err := s.modifiedSpec(v, req)
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	now := s.now()
	if state := v.state(now); state != ebs.VolumeAvailable && state != ebs.VolumeInUse {
		return nil, refusal("IncorrectState", "The volume '%s' is '%s'.", v.id, state)
	}
	if m := v.modification; m != nil {
		if state := m.state(now); state == ebs.ModificationModifying || state == ebs.ModificationOptimizing {
			return nil, refusal("IncorrectModificationState", "Cannot modify volume in modification state %s", state)
		}
	}
	if rules := s.rules.Modification; v.modifiedSince(now.Add(-rules.Within)) >= rules.Most {
		return nil, refusal("VolumeModificationRateExceeded", "You've reached the maximum modification rate per volume limit: %d in %v hours.", rules.Most, rules.Within.Hours())
	}
	if err := s.checkQuota(to, v); err != nil {
		return nil, err
	}
	m := &modification{volume: v, from: v.spec, to: to, startedAt: now, appliedAt: now.Add(s.draw(s.rules.Modification.Modifying))}
	m.endedAt = m.appliedAt.Add(time.Duration(float64(s.rules.Modification.PerTiB) * float64(to.SizeGiB) / 1024))
	v.modification, v.modifiedAt = m, append(v.modifiedAt, now)
	s.modifying = append(s.modifying, m)
	return modifyVolumeAnswer{Modification: m.xml(now)}, nil
}

// modifiedSince counts the modifications that began after this time.
func (v *volume) modifiedSince(since time.Time) (n int) {
	for _, at := range v.modifiedAt {
		if at.After(since) {
			n++
		}
	}
	return n
}

// modifiedSpec is what a call makes of a volume: what it does not name stays, where the type has it.
func (s *Server) modifiedSpec(v *volume, req request) (cluster.VolumeSpec, error) {
	to := v.spec
	if req.has("VolumeType") && req.text("VolumeType") != to.Type {
		to = cluster.VolumeSpec{Type: req.text("VolumeType"), SizeGiB: to.SizeGiB}
		if p := paramsOf[to.Type]; v.spec.IOPS >= p.minIOPS && p.minIOPS != 0 {
			to.IOPS = v.spec.IOPS
		}
	}
	for key, field := range map[string]*int64{"Size": &to.SizeGiB, "Iops": &to.IOPS, "Throughput": &to.ThroughputMiB} {
		if !req.has(key) {
			continue
		}
		n, err := req.number(key)
		if err != nil {
			return to, err
		}
		*field = n
	}
	if to.SizeGiB < v.spec.SizeGiB {
		return to, refusal("InvalidParameterValue", "New size cannot be smaller than existing size")
	}
	to, err := s.completeSpec(to)
	if err == nil && to == v.spec {
		err = refusal("InvalidParameterCombination", "The modification changes nothing of volume '%s'.", v.id)
	}
	return to, err
}

// FailModification makes a volume's running modification fail, as EC2 seldom does. The old parameters stay.
func (s *Server) FailModification(id cluster.VolumeID, reason string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	v, err := s.liveVolume(id)
	if err != nil {
		return err
	}
	if v.modification == nil || v.modification.state(s.now()) == ebs.ModificationCompleted {
		return refusal("InvalidVolumeModification.NotFound", "Modification for volume '%s' does not exist.", id)
	}
	v.modification.failed, v.spec = reason, v.modification.from
	return nil
}

func (s *Server) describeModifications(req request) (any, error) {
	now := s.now()
	var all []*modification
	for _, v := range sorted(s.volumes) {
		if v.modification != nil {
			all = append(all, v.modification)
		}
	}
	found, next, err := query[*modification]{
		prefix: "vol", ids: req.list("VolumeId"),
		unknown: func(id string) error {
			if _, err := s.shownVolume(cluster.VolumeID(id)); err != nil {
				return err
			}
			return refusal("InvalidVolumeModification.NotFound", "Modification for volume '%s' does not exist.", id)
		},
		all:     all,
		id:      func(m *modification) string { return string(m.volume.id) },
		visible: func(m *modification) bool { return m.volume.visible(now) },
		tags:    func(*modification) map[string]string { return nil },
		field: func(m *modification, name string) (string, bool) {
			switch name {
			case "volume-id":
				return string(m.volume.id), true
			case "modification-state":
				return string(m.state(now)), true
			case "target-volume-type":
				return m.to.Type, true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeModificationsAnswer{NextToken: next}
	for _, m := range found {
		answer.Modifications = append(answer.Modifications, m.xml(now))
	}
	return answer, dryRun(req)
}

type modificationXML struct {
	Volume         string `xml:"volumeId"`
	State          string `xml:"modificationState"`
	Message        string `xml:"statusMessage,omitempty"`
	Progress       int    `xml:"progress"`
	FromType       string `xml:"originalVolumeType"`
	FromSize       int64  `xml:"originalSize"`
	FromIOPS       int64  `xml:"originalIops,omitempty"`
	FromThroughput int64  `xml:"originalThroughput,omitempty"`
	ToType         string `xml:"targetVolumeType"`
	ToSize         int64  `xml:"targetSize"`
	ToIOPS         int64  `xml:"targetIops,omitempty"`
	ToThroughput   int64  `xml:"targetThroughput,omitempty"`
	Started        string `xml:"startTime"`
	Ended          string `xml:"endTime,omitempty"`
}

type (
	modifyVolumeAnswer struct {
		XMLName      xml.Name        `xml:"ModifyVolumeResponse"`
		Modification modificationXML `xml:"volumeModification"`
	}
	describeModificationsAnswer struct {
		XMLName       xml.Name          `xml:"DescribeVolumesModificationsResponse"`
		Modifications []modificationXML `xml:"volumeModificationSet>item"`
		NextToken     string            `xml:"nextToken,omitempty"`
	}
)

func (m *modification) xml(now time.Time) modificationXML {
	out := modificationXML{
		Volume: string(m.volume.id), State: string(m.state(now)), Message: m.failed, Progress: m.progress(now),
		FromType: m.from.Type, FromSize: m.from.SizeGiB, FromIOPS: m.from.IOPS, FromThroughput: m.from.ThroughputMiB,
		ToType: m.to.Type, ToSize: m.to.SizeGiB, ToIOPS: m.to.IOPS, ToThroughput: m.to.ThroughputMiB, Started: stamp(m.startedAt),
	}
	if m.state(now) == ebs.ModificationCompleted {
		out.Ended = stamp(m.endedAt)
	}
	return out
}
