package volumes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Await waits until all volumes are available and as requested. A volume that fails, or that EC2 does not show for
// longer than it may hide a new one, is replaced.
func (m *Maker) Await(ctx context.Context, s *phase.Scope) error {
	a := &awaited{wanted: map[cluster.VolumeID]*Volume{}, shown: map[cluster.VolumeID]time.Time{}}
	for i := range m.volumes {
		v := &m.volumes[i]
		a.wanted[v.ID] = v
	}
	start := time.Now()
	s.Expect(int64(len(a.wanted)), "volumes")
	err := phase.Poll(ctx, m.opts.Poll, "wait for volumes", m.owner.Target.String(),
		func(ctx context.Context) (bool, error) {
			found, err := m.ec2.DescribeVolumes(ctx, slices.Collect(maps.Keys(a.wanted)))
			if err != nil {
				return false, err
			}
			ready, err := m.classify(s, a, found, start)
			if err != nil {
				return false, err
			}
			s.Reached(int64(ready))
			if ready == len(a.wanted) {
				m.checkTags(ctx, s, a.wanted, found)
				return true, nil
			}
			return false, m.replaceLost(ctx, s, a)
		})
	if err == nil {
		m.noteInitialization(ctx, s)
	}
	return err
}

// classify sorts the volumes that EC2 shows by state, and counts the usable ones.
func (m *Maker) classify(s *phase.Scope, a *awaited, found []ebs.Volume, start time.Time) (ready int, err error) {
	a.failed = map[cluster.VolumeID]ebs.VolumeState{}
	var available []cluster.VolumeID
	for _, v := range found {
		want := a.wanted[v.ID]
		a.shown[v.ID] = time.Now()
		switch v.State.Outcome() {
		case ebs.VolumeUsable:
			if err := matches(want, v); err != nil {
				return ready, err
			}
			ready++
			if want.Seconds == 0 {
				want.Seconds = time.Since(start).Seconds()
				m.noteVolume(want.Store)
				available = append(available, v.ID)
			}
		case ebs.VolumeFailed:
			a.failed[v.ID] = v.State
		case ebs.VolumeStrange:
			s.Note("volume %s is %q, an unknown state; still waiting", v.ID, v.State)
		case ebs.VolumeWaits: // not yet
		}
	}
	if len(available) > 0 {
		s.Result(journal.ResultAvailable, available)
	}
	return ready, nil
}

// matches checks that EC2 made what was requested.
func matches(want *Volume, got ebs.Volume) error {
	switch {
	case got.Spec.Type != want.Spec.Type,
		want.Spec.IOPS != 0 && got.Spec.IOPS != want.Spec.IOPS,
		want.Spec.ThroughputMiB != 0 && got.Spec.ThroughputMiB != want.Spec.ThroughputMiB,
		got.Spec.SizeGiB != want.Spec.SizeGiB, got.Zone != want.Zone:
		return failure.New(failure.Corrupt, "check volume", string(got.ID),
			"it is %s in %s, and %s in %s was asked for",
			got.Spec.Text(), got.Zone, want.Spec.Text(), want.Zone)
	case want.Encrypted && !got.Encrypted, isARN(want.KMSKey) && isARN(got.KMSKey) && got.KMSKey != want.KMSKey:
		return failure.New(failure.Corrupt, "check volume", string(got.ID),
			"it has KMS key %q (encrypted: %t), and %q was asked for",
			got.KMSKey, got.Encrypted, want.KMSKey)
	}
	return nil
}

// isARN reports whether key ids of this form can be compared: an alias may be another name of the same key.
func isARN(key string) bool { return strings.HasPrefix(key, "arn:") && strings.Contains(key, ":key/") }
