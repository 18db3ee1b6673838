package volumes

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// awaited are the volumes that a restore waits for, by their current ids.
type awaited struct {
	wanted map[cluster.VolumeID]*Volume
	shown  map[cluster.VolumeID]time.Time       // when EC2 last showed it
	failed map[cluster.VolumeID]ebs.VolumeState // by EC2's last answer
}

// lost returns the volumes not worth waiting for: EC2 shows them as failed, or has not shown them for as long as it may
// hide a new one.
func (a *awaited) lost(visibility time.Duration) []*Volume {
	var lost []*Volume
	now := time.Now()
	for id, v := range a.wanted {
		if a.shown[id].IsZero() {
			a.shown[id] = now // missing from now on
		}
		if a.failed[id] != "" || now.Sub(a.shown[id]) > visibility {
			lost = append(lost, v)
		}
	}
	return lost
}

// replaceLost requests all lost volumes again, concurrently; the adapter paces the calls. If they share an unusable KMS
// key, that is the reason, and replacing them does not help.
func (m *Maker) replaceLost(ctx context.Context, s *phase.Scope, a *awaited) error {
	lost := a.lost(m.opts.Visibility)
	if len(lost) == 0 {
		return nil
	}
	if err := m.keyAtFault(ctx, a, lost); err != nil {
		return err
	}
	m.replaced += len(lost)
	replacements := make([]cluster.VolumeID, len(lost))
	err := parallel.Each(ctx, 0, lost, func(ctx context.Context, i int, v *Volume) (err error) {
		replacements[i], err = m.replacement(ctx, s, a, v)
		return failure.Annotate(err, "create volume", fmt.Sprintf("store %s %s", v.Store, v.Role))
	})
	var failed []cluster.VolumeID
	for i, v := range lost {
		id, old := replacements[i], v.ID
		if id == "" {
			continue
		}
		if id != old {
			what := "vanished while EC2 made it"
			if state := a.failed[old]; state != "" {
				what = "is in state " + failure.Line(string(state))
				failed = append(failed, old)
			}
			s.Warn("volume %s %s: %s takes its place", old, what, id)
			delete(a.wanted, old)
			v.ID, a.wanted[id] = id, v
		}
		a.shown[id] = time.Now()
	}
	if u := unusableKey(m.volumes); u != nil {
		return u.why(ctx, m.ec2)
	}
	m.deleteFailed(ctx, s, failed)
	return err
}

// replacement requests a volume in place of a lost one. With the same token EC2 returns the same volume, which is right
// if it was only hidden; after a burned token it uses the next one. A failed volume's token is skipped.
func (m *Maker) replacement(ctx context.Context, s *phase.Scope, a *awaited, v *Volume) (cluster.VolumeID, error) {
	if a.failed[v.ID] != "" {
		if v.generation >= maxGenerations {
			return "", neverMade(v)
		}
		v.generation++
	}
	return m.createVolume(ctx, s, v)
}

// deleteFailed deletes failed volumes that were replaced. What cannot be deleted is left to gc.
func (m *Maker) deleteFailed(ctx context.Context, s *phase.Scope, failed []cluster.VolumeID) {
	for id, err := range ebs.DeleteEach(ctx, failed, m.ec2.DeleteVolume, nil) {
		s.Warn("volume %s failed, was replaced, and could not be deleted: %v; %s", id, err, m.removal())
	}
}

// neverMade is the error for a volume that is lost every time.
func neverMade(v *Volume) error {
	err := failure.New(failure.Corrupt, "create volume", string(v.Snapshot),
		"%d volumes from this snapshot (%s in %s) failed or disappeared",
		v.generation, v.Spec.Type, v.Zone)
	if v.Encrypted {
		return err.WithHint("see that KMS key %s is enabled and may be used by this role, then restore again",
			preflight.KeyName(v.KMSKey))
	}
	return err.WithHint("try another zone (--az-map) or another type (--volume-type), and see AWS Health")
}
