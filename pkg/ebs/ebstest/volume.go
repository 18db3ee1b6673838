package ebstest

import (
	"fmt"
	"maps"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// volume is an EBS volume. Its state follows from its times, so nothing has to run in the background.
type volume struct {
	id        cluster.VolumeID
	zone      cluster.Zone
	spec      cluster.VolumeSpec // with the type's defaults filled in
	snapshot  cluster.SnapshotID
	encrypted bool
	kmsKey    string
	outpost   string // its ARN
	tags      map[string]string
	device    *disk.Device

	createdAt, visibleAt, readyAt time.Time
	failed                        bool
	goneAt                        time.Time // zero until deleted

	instance   cluster.InstanceID // "" if not attached
	deviceName string
	attachedAt time.Time
	lastCut    time.Time

	vanishAt     time.Time // zero unless its creation fails after it was accepted
	filling      *filling  // nil for a volume that was made empty
	fastRestored bool
	modification *modification // nil until ModifyVolume
	modifiedAt   []time.Time   // when each began
}

func (v *volume) state(now time.Time) ebs.VolumeState {
	switch {
	case !v.goneAt.IsZero():
		return ebs.VolumeDeleting
	case !v.vanishAt.IsZero():
		return ebs.VolumeCreating
	case v.failed:
		return ebs.VolumeError
	case v.instance != "":
		return ebs.VolumeInUse
	case now.Before(v.readyAt):
		return ebs.VolumeCreating
	default:
		return ebs.VolumeAvailable
	}
}

func (v *volume) gone(now time.Time) bool {
	return (!v.goneAt.IsZero() && !now.Before(v.goneAt)) || (!v.vanishAt.IsZero() && !now.Before(v.vanishAt))
}

func (v *volume) visible(now time.Time) bool { return !now.Before(v.visibleAt) && !v.gone(now) }

func (v *volume) view(now time.Time) ebs.Volume {
	return ebs.Volume{
		ID: v.id, State: v.state(now), Zone: v.zone, Spec: v.spec, Snapshot: v.snapshot,
		Instance: v.instance, CreatedAt: v.createdAt, Encrypted: v.encrypted, KMSKey: v.kmsKey, Tags: maps.Clone(v.tags),
	}
}

// newID makes ids that sort by age. The caller holds the lock.
func (s *Server) newID(prefix string) string {
	s.world.next++
	return fmt.Sprintf("%s-0%016x", prefix, s.world.next)
}

// addVolume puts a volume into the account. The caller holds the lock.
func (s *Server) addVolume(v *volume) *volume {
	v.id = cluster.VolumeID(s.newID("vol"))
	v.createdAt = s.now()
	if v.device == nil {
		v.device = disk.New(v.spec.SizeGiB << 30)
	}
	v.device.Detach() // what is not attached cannot be read or written
	s.volumes[v.id] = v
	return v
}

// liveVolume is a volume that exists, or EC2's error for one that does not.
func (s *Server) liveVolume(id cluster.VolumeID) (*volume, error) {
	v, ok := s.volumes[id]
	if !ok || v.gone(s.now()) {
		return nil, refusal("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
	}
	return v, nil
}

// shownVolume is a volume that a call over the wire can see already.
func (s *Server) shownVolume(id cluster.VolumeID) (*volume, error) {
	if err := wellFormed("vol", string(id)); err != nil {
		return nil, err
	}
	v, err := s.liveVolume(id)
	if err == nil && !v.visible(s.now()) {
		err = refusal("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
	}
	return v, err
}

// attach is the effect of AttachVolume. Attaching is done at once.
func (s *Server) attach(v *volume, i *instance, name string) error {
	now := s.now()
	switch {
	case i.terminated:
		return refusal("IncorrectState", "Instance '%s' is not 'running'.", i.id)
	case v.instance != "":
		return refusal("VolumeInUse", "%s is already attached to an instance", v.id)
	case v.state(now) != ebs.VolumeAvailable:
		return refusal("IncorrectState", "%s is not 'available'.", v.id)
	case v.zone != i.zone:
		return refusal("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", v.id, i.id)
	}
	if name == "" {
		name = i.freeDevice(s.volumes)
	}
	v.instance, v.deviceName, v.attachedAt = i.id, name, now
	v.device.Attach()
	return nil
}

func (s *Server) detach(v *volume) error {
	if v.instance == "" {
		return refusal("IncorrectState", "Volume '%s' is in the 'available' state.", v.id)
	}
	v.device.Detach()
	v.instance, v.deviceName, v.attachedAt = "", "", time.Time{}
	return nil
}
