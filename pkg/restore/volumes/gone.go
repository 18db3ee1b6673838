package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Gone counts the volumes that an earlier process made and that EC2 does not have any more. EC2 may hide those that it
// has not shown yet, so Gone waits for them as long as that. If any are gone, Delete knows all of them.
func (m *Maker) Gone(ctx context.Context, made Created, shown bool) (gone int, err error) {
	if len(made) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.opts.Timeout+m.opts.Visibility)
	defer cancel()
	hiddenUntil := time.Now().Add(m.opts.Visibility)
	err = phase.Poll(ctx, m.opts.Poll, "find volumes", m.owner.Target.String(),
		func(ctx context.Context) (bool, error) {
			asked := time.Now()
			found, err := m.ec2.DescribeVolumes(ctx, slices.Collect(maps.Values(made)))
			if err != nil {
				return false, err
			}
			gone = len(made)
			for _, v := range found {
				if v.State.Outcome() != ebs.VolumeFailed {
					gone--
				}
			}
			return gone == 0 || shown || asked.After(hiddenUntil), nil
		})
	if gone > 0 {
		for i := range m.volumes {
			m.volumes[i].ID = made[m.volumes[i].Snapshot]
		}
	}
	return gone, err
}
