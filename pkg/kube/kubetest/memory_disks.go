package kubetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// MemoryDisks is a Disks without data that keeps EC2's rules about zones and attachments. Instances are in
// the zones that AddInstance names. The zero value works.
type MemoryDisks struct {
	mu        sync.Mutex
	zones     map[cluster.VolumeID]cluster.Zone
	instances map[cluster.InstanceID]cluster.Zone
	attached  map[cluster.VolumeID]cluster.InstanceID
	pending   map[cluster.VolumeID]bool
	made      int
	modified  []cluster.VolumeID
}

// AddInstance adds an instance in a zone.
func (d *MemoryDisks) AddInstance(i cluster.InstanceID, zone cluster.Zone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	d.instances[i] = zone
}

// Add makes a volume with a given id, as a restore does; one that is not available cannot be attached yet.
func (d *MemoryDisks) Add(v cluster.VolumeID, zone cluster.Zone, available bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	d.zones[v] = zone
	d.pending[v] = !available
}

func (d *MemoryDisks) init() {
	if d.zones == nil {
		d.zones, d.instances = map[cluster.VolumeID]cluster.Zone{}, map[cluster.InstanceID]cluster.Zone{}
		d.attached, d.pending = map[cluster.VolumeID]cluster.InstanceID{}, map[cluster.VolumeID]bool{}
	}
}

// Provision makes a volume.
func (d *MemoryDisks) Provision(_ context.Context, want NewVolume) (cluster.VolumeID, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	d.made++
	v := cluster.VolumeID(fmt.Sprintf("vol-%017x", d.made))
	d.zones[v] = want.Zone
	return v, nil
}

// Attach refuses in EC2's words.
func (d *MemoryDisks) Attach(_ context.Context, v cluster.VolumeID, i cluster.InstanceID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.init()
	zone, exists := d.zones[v]
	switch on := d.attached[v]; {
	case !exists:
		return fmt.Errorf("InvalidVolume.NotFound: The volume '%s' does not exist.", v)
	case d.pending[v]:
		return fmt.Errorf("IncorrectState: Volume '%s' is not 'available'.", v)
	case on != "" && on != i:
		return fmt.Errorf("VolumeInUse: %s is already attached to an instance", v)
	case zone != d.instances[i]:
		return fmt.Errorf("InvalidVolume.ZoneMismatch: The volume '%s' is not in the same availability zone as instance '%s'", v, i)
	}
	d.attached[v] = i
	return nil
}

// Detach frees a volume.
func (d *MemoryDisks) Detach(_ context.Context, v cluster.VolumeID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.attached, v)
	return nil
}

// Modify notes the volume.
func (d *MemoryDisks) Modify(_ context.Context, v cluster.VolumeID, _ int64, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.modified = append(d.modified, v)
	return nil
}

// Modified lists the volumes that were modified, as often as they were.
func (d *MemoryDisks) Modified() []cluster.VolumeID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]cluster.VolumeID(nil), d.modified...)
}

// Delete forgets a volume that is not attached.
func (d *MemoryDisks) Delete(_ context.Context, v cluster.VolumeID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attached[v] != "" {
		return fmt.Errorf("VolumeInUse: %s is attached", v)
	}
	delete(d.zones, v)
	return nil
}

// Zone is the volume's zone.
func (d *MemoryDisks) Zone(v cluster.VolumeID) cluster.Zone {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.zones[v]
}

// Attached is a copy of what is attached where.
func (d *MemoryDisks) Attached() map[cluster.VolumeID]cluster.InstanceID {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[cluster.VolumeID]cluster.InstanceID{}
	for v, i := range d.attached {
		found[v] = i
	}
	return found
}
