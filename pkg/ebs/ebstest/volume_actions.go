package ebstest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// tokenUse is what a client token was used for.
type tokenUse struct {
	fingerprint string
	volume      cluster.VolumeID
	at          time.Time
}

// createVolume checks the limits before the token, as EC2 does.
func (s *Server) createVolume(req request) (any, error) {
	v, source, err := s.wantedVolume(req)
	if err != nil {
		return nil, err
	}
	rate, err := s.initializationRate(req, source)
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	if err := s.checkQuota(v.spec, nil); err != nil {
		return nil, err
	}
	if err := s.checkInitialization(rate); err != nil {
		return nil, err
	}
	token := req.text("ClientToken")
	if use, ok := s.tokens[token]; ok && token != "" && s.now().Sub(use.at) < s.rules.TokenMemory {
		old, err := s.liveVolume(use.volume)
		if use.fingerprint != req.fingerprint() || err != nil {
			return nil, refusal("IdempotentParameterMismatch", "The client token you have provided is associated with a resource that is already deleted or was created with different parameters.")
		}
		return createVolumeAnswer{volumeXML: s.volumeXML(old)}, nil
	}
	now := s.now()
	v.visibleAt = now.Add(s.draw(s.rules.Invisible))
	v.readyAt = now.Add(s.draw(s.rules.Creating))
	if s.vanishes(v) {
		v.vanishAt = v.readyAt
	}
	s.addVolume(v)
	if source != nil {
		s.fill(v, source, rate)
	}
	if token != "" {
		s.tokens[token] = tokenUse{fingerprint: req.fingerprint(), volume: v.id, at: now}
	}
	return createVolumeAnswer{volumeXML: s.volumeXML(v)}, nil
}

// vanishes decides whether a volume that is accepted now will fail on its way and be gone.
func (s *Server) vanishes(v *volume) bool {
	if v.encrypted && !s.canUse(v.kmsKey) {
		return true
	}
	if s.vanishNext > 0 {
		s.vanishNext--
		return true
	}
	return s.rules.VanishOneIn > 0 && s.random.IntN(s.rules.VanishOneIn) == 0
}

// wantedVolume is the volume that a call describes, after all checks of its parameters, and the snapshot
// that it is to be made of, or nil.
func (s *Server) wantedVolume(req request) (v *volume, source *snapshot, err error) {
	v = &volume{zone: cluster.Zone(req.text("AvailabilityZone")), snapshot: cluster.SnapshotID(req.text("SnapshotId"))}
	if err := s.checkZone(v.zone); err != nil {
		return nil, nil, err
	}
	if len(req.text("ClientToken")) > 64 {
		return nil, nil, refusal("InvalidParameterValue", "Value for parameter clientToken is longer than 64 characters.")
	}
	if v.snapshot != "" {
		if source, err = s.sourceOf(s.cfg.Region, v.snapshot); err != nil {
			return nil, nil, err
		}
	}
	if v.spec, err = s.readSpec(req, source); err != nil {
		return nil, nil, err
	}
	if v.tags, err = s.tags(req, "volume"); err != nil {
		return nil, nil, err
	}
	if err := s.encrypt(v, source, req); err != nil {
		return nil, nil, err
	}
	if source != nil {
		if v.device, err = disk.FromImage(source.image, v.spec.SizeGiB<<30); err != nil {
			return nil, nil, refusal("InternalError", "%v", err)
		}
	}
	return v, source, nil
}

func (s *Server) checkZone(zone cluster.Zone) error {
	if zone == "" {
		return refusal("MissingParameter", "The request must contain the parameter zone")
	}
	for _, known := range s.cfg.Zones {
		if known == zone {
			return nil
		}
	}
	return refusal("InvalidZone.NotFound", "The zone '%s' does not exist.", zone)
}

// encrypt keeps an encrypted snapshot's key unless the call names another.
func (s *Server) encrypt(v *volume, source *snapshot, req request) error {
	if source != nil && source.encrypted {
		if req.has("Encrypted") && !req.flag("Encrypted") {
			return refusal("InvalidParameterValue", "A volume made from an encrypted snapshot cannot be unencrypted.")
		}
		v.encrypted, v.kmsKey = true, source.kmsKey
	}
	if req.has("KmsKeyId") && !req.flag("Encrypted") {
		return refusal("InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
	}
	if req.flag("Encrypted") {
		v.encrypted = true
		if key := req.text("KmsKeyId"); key != "" {
			v.kmsKey = key
		} else if v.kmsKey == "" {
			v.kmsKey = s.defaultKey()
		}
	}
	return nil
}

// defaultKey is the account's default key for EBS.
func (s *Server) defaultKey() string { return s.keyNamed(cmp.Or(s.chosenKey, defaultAlias)) }

// ownKey is the key for EBS that AWS made for the account.
func (s *Server) ownKey() string {
	return fmt.Sprintf("arn:aws:kms:%s:%s:key/default", s.cfg.Region, s.cfg.Account)
}

// checkQuota holds a new volume, or one that is changed, against the quotas of its type.
func (s *Server) checkQuota(spec cluster.VolumeSpec, changed *volume) error {
	now := s.now()
	size, iops := spec.SizeGiB, spec.IOPS
	for _, v := range s.volumes {
		if v != changed && v.spec.Type == spec.Type && !v.gone(now) {
			size += v.spec.SizeGiB
			iops += v.spec.IOPS
		}
	}
	if most, ok := s.rules.StorageGiB[spec.Type]; ok && size > most {
		return refusal("VolumeLimitExceeded", "You have exceeded your maximum %s storage limit of %d GiB in this region.", spec.Type, most)
	}
	if most, ok := s.rules.IOPS[spec.Type]; ok && iops > most {
		return refusal("VolumeIOPSLimit", "You have exceeded your maximum %s IOPS limit of %d in this region.", spec.Type, most)
	}
	return nil
}

func (s *Server) deleteVolume(req request) (any, error) {
	v, err := s.shownVolume(cluster.VolumeID(req.text("VolumeId")))
	if err != nil {
		return nil, err
	}
	if err := dryRun(req); err != nil {
		return nil, err
	}
	if v.instance != "" {
		return nil, refusal("VolumeInUse", "Volume %s is currently attached to %s", v.id, v.instance)
	}
	switch v.state(s.now()) {
	case ebs.VolumeCreating:
		return nil, refusal("IncorrectState", "The volume '%s' is 'creating'.", v.id)
	case ebs.VolumeDeleting: // stays as it is
	default:
		v.goneAt = s.now().Add(s.draw(s.rules.Deleting))
	}
	return simpleAnswer("DeleteVolume"), nil
}

func (s *Server) describeVolumes(req request) (any, error) {
	now := s.now()
	found, next, err := query[*volume]{
		prefix: "vol", ids: req.list("VolumeId"),
		unknown: func(id string) error {
			return refusal("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
		},
		all:     sorted(s.volumes),
		id:      func(v *volume) string { return string(v.id) },
		visible: func(v *volume) bool { return v.visible(now) },
		tags:    func(v *volume) map[string]string { return v.tags },
		field: func(v *volume, name string) (string, bool) {
			switch name {
			case "volume-id":
				return string(v.id), true
			case "snapshot-id":
				return string(v.snapshot), true
			case "status":
				return string(v.state(now)), true
			case "attachment.instance-id":
				return string(v.instance), true
			case "availability-zone":
				return string(v.zone), true
			case "volume-type":
				return v.spec.Type, true
			case "size":
				return fmt.Sprint(v.spec.SizeGiB), true
			case "encrypted":
				return fmt.Sprint(v.encrypted), true
			}
			return "", false
		},
	}.run(req)
	if err != nil {
		return nil, err
	}
	answer := describeVolumesAnswer{NextToken: next}
	for _, v := range found {
		answer.Volumes = append(answer.Volumes, s.volumeXML(v))
	}
	return answer, nil
}
