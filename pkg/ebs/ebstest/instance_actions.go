package ebstest

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
)

func (s *Server) describeInstances(req request) (any, error) {
	found, next, err := query[*instance]{
		prefix: "i", ids: req.list("InstanceId"),
		unknown: func(id string) error {
			return refusal("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
		},
		all:     sorted(s.instances),
		id:      func(i *instance) string { return string(i.id) },
		visible: func(*instance) bool { return true },
		tags:    func(*instance) map[string]string { return nil },
		field: func(i *instance, name string) (string, bool) {
			switch name {
			case "instance-id":
				return string(i.id), true
			case "availability-zone":
				return string(i.zone), true
			case "instance-state-name":
				return i.stateXML().Name, true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeInstancesAnswer{NextToken: next}
	for _, i := range found {
		answer.Reservations = append(answer.Reservations, s.reservationXML(i))
	}
	return answer, nil
}

func (s *Server) terminateInstances(req request) (any, error) {
	var targets []*instance
	for _, id := range req.list("InstanceId") {
		i, err := s.liveInstance(cluster.InstanceID(id))
		if err != nil {
			return nil, err
		}
		targets = append(targets, i)
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	for _, i := range targets {
		s.terminate(i)
	}
	return simpleAnswer("TerminateInstances"), nil
}

func (s *Server) attachVolume(req request) (any, error) {
	v, i, err := s.attachment(req)
	if err != nil {
		return nil, err
	}
	if !req.has("Device") {
		return nil, refusal("MissingParameter", "The request must contain the parameter device")
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	if err := s.attach(v, i, req.text("Device")); err != nil {
		return nil, err
	}
	return attachVolumeAnswer{attachmentXML: *s.attachmentXML(v)}, nil
}

func (s *Server) detachVolume(req request) (any, error) {
	v, err := s.shownVolume(cluster.VolumeID(req.text("VolumeId")))
	if err != nil {
		return nil, err
	}
	if id := req.text("InstanceId"); id != "" && v.instance != "" && id != string(v.instance) {
		return nil, refusal("InvalidAttachment.NotFound", "Volume '%s' is not attached to instance '%s'.", v.id, id)
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	if v.instance == "" {
		return nil, s.detach(v)
	}
	answer := detachVolumeAnswer{attachmentXML: *s.attachmentXML(v)}
	answer.Status = "detaching"
	return answer, s.detach(v)
}

func (s *Server) attachment(req request) (*volume, *instance, error) {
	v, err := s.shownVolume(cluster.VolumeID(req.text("VolumeId")))
	if err != nil {
		return nil, nil, err
	}
	i, err := s.liveInstance(cluster.InstanceID(req.text("InstanceId")))
	return v, i, err
}

// createTags adds and overwrites; nothing is changed if one resource would have too many.
func (s *Server) createTags(req request) (any, error) {
	added, err := req.pairs("Tag")
	if err != nil {
		return nil, err
	}
	var targets []map[string]string
	for _, id := range req.list("ResourceId") {
		tags, err := s.tagsOf(id)
		if err != nil {
			return nil, err
		}
		merged := map[string]string{}
		for _, m := range []map[string]string{tags, added} {
			for key, value := range m {
				merged[key] = value
			}
		}
		if err := s.checkTags(merged); err != nil {
			return nil, err
		}
		targets = append(targets, tags)
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	for _, tags := range targets {
		for key, value := range added {
			tags[key] = value
		}
	}
	return simpleAnswer("CreateTags"), nil
}

func (s *Server) tagsOf(id string) (map[string]string, error) {
	if p, ok := s.snapshots[cluster.SnapshotID(id)]; ok {
		_, err := s.shownSnapshot(p.id)
		return p.tags, err
	}
	if v, ok := s.volumes[cluster.VolumeID(id)]; ok {
		_, err := s.shownVolume(v.id)
		return v.tags, err
	}
	return nil, refusal("InvalidID", "The ID '%s' is not valid", id)
}

func (s *Server) describeZones(req request) (any, error) {
	answer := describeZonesAnswer{}
	for _, zone := range s.cfg.Zones {
		answer.Zones = append(answer.Zones, zoneXML{
			Name: string(zone), ID: s.zoneID(zone),
			Region: s.cfg.Region, State: "available", Type: "availability-zone", OptIn: "opt-in-not-required",
		})
	}
	return answer, dryRun(req)
}

func (s *Server) callerIdentity(request) (any, error) {
	return identityAnswer{
		Account: s.cfg.Account, User: "AIDATEST",
		ARN: fmt.Sprintf("arn:aws:iam::%s:user/test", s.cfg.Account),
	}, nil
}
