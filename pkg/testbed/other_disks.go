package testbed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// Another cloud's CSI driver, and the StorageClass of its volumes.
const (
	OtherDriver = "disk.csi.azure.com"
	OtherClass  = "managed-csi"
)

// otherHandle begins the ids of its volumes.
const otherHandle = "/subscriptions/testbed/resourceGroups/nodes/providers/Microsoft.Compute/disks/"

// Disks are volumes that EC2 does not know. They are attached by EC2's rules.
type Disks struct {
	memory kubetest.MemoryDisks

	mu      sync.Mutex
	devices map[cluster.VolumeID]*disk.Device
}

func newDisks() *Disks { return &Disks{devices: map[cluster.VolumeID]*disk.Device{}} }

var _ kubetest.Disks = (*Disks)(nil)

// Provision makes an empty volume.
func (d *Disks) Provision(_ context.Context, v kubetest.NewVolume) (cluster.VolumeID, error) {
	id := cluster.VolumeID(otherHandle + v.PV)
	device := disk.New(v.SizeGiB << 30)
	device.Detach()
	d.mu.Lock()
	d.devices[id] = device
	d.mu.Unlock()
	d.memory.Add(id, v.Zone, true)
	return id, nil
}

// Attach is idempotent.
func (d *Disks) Attach(ctx context.Context, v cluster.VolumeID, i cluster.InstanceID) error {
	if err := d.memory.Attach(ctx, v, i); err != nil {
		return err
	}
	device, err := d.Device(v)
	if err == nil {
		device.Attach()
	}
	return err
}

// Detach is idempotent.
func (d *Disks) Detach(ctx context.Context, v cluster.VolumeID) error {
	if device, err := d.Device(v); err == nil {
		device.Detach()
	}
	return d.memory.Detach(ctx, v)
}

// Modify is refused.
func (d *Disks) Modify(_ context.Context, v cluster.VolumeID, _ int64, _ string) error {
	return fmt.Errorf("modify %s: %s does not do that", v, OtherDriver)
}

// Delete is idempotent.
func (d *Disks) Delete(ctx context.Context, v cluster.VolumeID) error {
	if err := d.memory.Delete(ctx, v); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.devices, v)
	return nil
}

// Zone is "" for a volume that does not exist.
func (d *Disks) Zone(v cluster.VolumeID) cluster.Zone { return d.memory.Zone(v) }

// Device is the block device of a volume.
func (d *Disks) Device(v cluster.VolumeID) (*disk.Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	device := d.devices[v]
	if device == nil {
		return nil, fmt.Errorf("volume %s does not exist", v)
	}
	return device, nil
}

// List lists all volumes; there are none of a nil Disks.
func (d *Disks) List() []cluster.VolumeID {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.devices))
}

func (t *Testbed) otherDrivers() map[string]kubetest.Disks {
	if t.Disks == nil {
		return nil
	}
	return map[string]kubetest.Disks{OtherDriver: t.Disks}
}

// device is the block device of a driver's volume.
func (t *Testbed) device(driver string, v cluster.VolumeID) (*disk.Device, error) {
	if driver == OtherDriver && t.Disks != nil {
		return t.Disks.Device(v)
	}
	return t.EC2.Device(v)
}

// otherVolumesOf lists the volumes of OtherDriver that the cluster's claims are bound to.
func (t *Testbed) otherVolumesOf(name cluster.Name) []cluster.VolumeID {
	there := t.Disks.List()
	return slices.DeleteFunc(t.handlesOf(name), func(v cluster.VolumeID) bool { return !slices.Contains(there, v) })
}
