package ebstest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

const rootDevice = "/dev/xvda"

// instance is an EC2 instance: running until it is terminated.
type instance struct {
	id         cluster.InstanceID
	zone       cluster.Zone
	boot       cluster.VolumeID
	launchedAt time.Time
	terminated bool
}

// freeDevice is the first name from /dev/sdf on that no attached volume has.
func (i *instance) freeDevice(volumes map[cluster.VolumeID]*volume) string {
	used := map[string]bool{}
	for _, v := range volumes {
		if v.instance == i.id {
			used[v.deviceName] = true
		}
	}
	for n := 0; ; n++ {
		name := fmt.Sprintf("/dev/sd%c", 'f'+n)
		if n > 'z'-'f' {
			name = fmt.Sprintf("/dev/xvdb%c%c", 'a'+n/26, 'a'+n%26)
		}
		if !used[name] {
			return name
		}
	}
}

// attached lists an instance's volumes by device name. The caller holds the lock.
func (s *Server) attached(id cluster.InstanceID) []*volume {
	var out []*volume
	for _, v := range s.volumes {
		if v.instance == id {
			out = append(out, v)
		}
	}
	slices.SortFunc(out, func(a, b *volume) int { return cmp.Compare(a.deviceName, b.deviceName) })
	return out
}

func (s *Server) liveInstance(id cluster.InstanceID) (*instance, error) {
	if err := wellFormed("i", string(id)); err != nil {
		return nil, err
	}
	i, ok := s.instances[id]
	if !ok {
		return nil, refusal("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
	}
	return i, nil
}

// terminate takes the data volumes off and deletes the boot volume. Doing it again changes nothing.
func (s *Server) terminate(i *instance) {
	if i.terminated {
		return
	}
	for _, v := range s.attached(i.id) {
		_ = s.detach(v) // it is attached
	}
	i.terminated = true
	delete(s.volumes, i.boot)
}
