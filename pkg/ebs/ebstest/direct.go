package ebstest

import (
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// This file is the Go side, for the rest of the testbed and for tests. It sees everything at once, takes no
// time, needs no permission and counts against no bucket. Errors are in EC2's words (CodeOf).

const bootGiB = 20

// AddInstance starts an instance with a boot volume in the zone and returns its id.
func (s *Server) AddInstance(zone cluster.Zone) cluster.InstanceID {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := &instance{id: cluster.InstanceID(s.newID("i")), zone: zone, launchedAt: s.now()}
	s.instances[i.id] = i
	spec, _ := s.completeSpec(cluster.VolumeSpec{Type: "gp3", SizeGiB: bootGiB}) // is right
	boot := s.addVolume(&volume{zone: zone, spec: spec, tags: map[string]string{}})
	_ = s.attach(boot, i, rootDevice) // both are new
	i.boot = boot.id
	return i.id
}

// TerminateInstance detaches an instance's data volumes and deletes its boot volume. The instance stays
// visible as terminated. An unknown id is ignored.
func (s *Server) TerminateInstance(id cluster.InstanceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.instances[id]; ok {
		s.terminate(i)
	}
}

// CreateVolumeDirect makes an empty volume that is available and visible at once. The specification is
// checked by EC2's rules.
func (s *Server) CreateVolumeDirect(zone cluster.Zone, spec cluster.VolumeSpec, tags ebs.Tags) (cluster.VolumeID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkZone(zone); err != nil {
		return "", err
	}
	spec, err := s.completeSpec(spec)
	if err != nil {
		return "", err
	}
	v := s.addVolume(&volume{zone: zone, spec: spec, tags: map[string]string{}})
	maps.Copy(v.tags, tags)
	return v.id, nil
}

// PutOnOutpost moves a volume to an Outpost, by its ARN.
func (s *Server) PutOnOutpost(id cluster.VolumeID, arn string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err == nil {
		v.outpost = arn
	}
	return err
}

// Encrypt marks a volume as encrypted with the key, which the account then has; its later snapshots are too.
func (s *Server) Encrypt(id cluster.VolumeID, kmsKey string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err == nil {
		v.encrypted, v.kmsKey = true, kmsKey
		home := s.keyHome(kmsKey)
		if _, has := home.keys[kmsKey]; !has {
			home.keys[kmsKey] = keyUse{}
		}
	}
	return err
}

// Attach attaches an available volume to an instance of its zone, at once.
func (s *Server) Attach(id cluster.VolumeID, to cluster.InstanceID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err != nil {
		return err
	}
	i, err := s.liveInstance(to)
	if err != nil {
		return err
	}
	return s.attach(v, i, "")
}

// Detach detaches a volume; its device's reads and writes fail from then on.
func (s *Server) Detach(id cluster.VolumeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err != nil {
		return err
	}
	return s.detach(v)
}

// DeleteVolumeDirect deletes a volume that is not attached, as a CSI driver does.
func (s *Server) DeleteVolumeDirect(id cluster.VolumeID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err != nil {
		return err
	}
	if v.instance != "" {
		return refusal("VolumeInUse", "Volume %s is currently attached to %s", v.id, v.instance)
	}
	v.goneAt = s.now()
	return nil
}

// Device is the volume's block device. Its reads and writes fail unless the volume is attached.
func (s *Server) Device(id cluster.VolumeID) (*disk.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err != nil {
		return nil, err
	}
	return v.device, nil
}

// Image is the content of a snapshot that is not deleted, pending or not.
func (s *Server) Image(id cluster.SnapshotID) (*disk.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.snapshots[id]
	if !ok || p.deleted {
		return nil, refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
	}
	return p.image, nil
}

// SetImage puts another content into a snapshot, as a copy of the wrong moment has.
func (s *Server) SetImage(id cluster.SnapshotID, image *disk.Image) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.snapshots[id]
	if !ok || p.deleted {
		return refusal("InvalidSnapshot.NotFound", "The snapshot '%s' does not exist.", id)
	}
	p.image = image
	return nil
}

// Volume is a volume's present state; ok is false if it does not exist.
func (s *Server) Volume(id cluster.VolumeID) (v ebs.Volume, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	found, err := s.liveVolume(id)
	if err != nil {
		return ebs.Volume{}, false
	}
	return found.view(s.now()), true
}

// Volumes lists all volumes, boot volumes included, by age.
func (s *Server) Volumes() []ebs.Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	var out []ebs.Volume
	for _, v := range sorted(s.volumes) {
		if !v.gone(s.now()) {
			out = append(out, v.view(s.now()))
		}
	}
	return out
}

// Snapshots lists all snapshots that are not deleted, by age.
func (s *Server) Snapshots() []ebs.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	var out []ebs.Snapshot
	for _, p := range sorted(s.snapshots) {
		if !p.deleted {
			out = append(out, p.view(s.now()))
		}
	}
	return out
}

// Cuts lists the CreateSnapshots calls that took effect, in their order.
func (s *Server) Cuts() []Cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.cuts)
}

// TagVolume adds tags to a volume, as its owner does.
func (s *Server) TagVolume(id cluster.VolumeID, tags ebs.Tags) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.liveVolume(id)
	if err != nil {
		return err
	}
	merged := maps.Clone(v.tags)
	maps.Copy(merged, tags)
	if err := s.checkTags(merged); err != nil {
		return err
	}
	v.tags = merged
	return nil
}
