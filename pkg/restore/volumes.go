package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// createdVolumes maps a snapshot to the volume that was made of it. It is journalled.
type createdVolumes map[cluster.SnapshotID]cluster.VolumeID

// createVolumes asks for all volumes at the same time; the adapter paces the calls. A lost answer is asked
// for again with the same token, which gives the same volume.
func (t *task) createVolumes(ctx context.Context, s *phase.Scope) error {
	if err := s.Intent(ctx, "create-volumes", t.volumes); err != nil {
		return err
	}
	s.Expect(int64(len(t.volumes)), "volumes")
	t.asked = true
	errs := make([]error, len(t.volumes))
	var wg sync.WaitGroup
	for i := range t.volumes {
		wg.Go(func() {
			v := &t.volumes[i]
			id, err := t.createVolume(ctx, v)
			if err != nil {
				errs[i] = failure.Annotate(err, "create volume", fmt.Sprintf("store %s %s", v.Store, v.Role))
				return
			}
			v.ID = id
			s.Advance(1)
		})
	}
	wg.Wait()
	for _, v := range t.volumes {
		if v.ID != "" {
			t.created[v.Snapshot] = v.ID
		}
	}
	return errors.Join(errs...)
}

func (t *task) createVolume(ctx context.Context, v *Volume) (cluster.VolumeID, error) {
	req := ebs.VolumeRequest{
		Token: token(t.opts.Run, v), Snapshot: v.Snapshot, Zone: v.Zone, Spec: v.Spec,
		Tags: ebs.Tags{
			ebs.TagRun: string(t.opts.Run), ebs.TagBackup: string(t.opts.Backup), ebs.TagCluster: t.opts.Target.String(),
			ebs.TagStore: v.Store.String(), ebs.TagRole: string(v.Role), ebs.TagSnapshot: string(v.Snapshot),
		},
	}
	for interval := look; ; interval = min(2*interval, 10*time.Second) {
		made, err := t.EBS.CreateVolume(ctx, req)
		if err == nil {
			return made.ID, nil
		}
		if k := failure.KindOf(err); k != failure.Unknown && k != failure.Limited {
			return "", err
		}
		if wait.For(ctx, interval) != nil {
			return "", err
		}
	}
}

// token is the same for the same volume of the same run, so that asking again never makes a second volume.
func token(run cluster.RunID, v *Volume) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%s", run, v.Store, v.Role, v.Snapshot))
	return hex.EncodeToString(sum[:])
}

// awaitVolumes waits until all volumes are available and have what was asked for.
func (t *task) awaitVolumes(ctx context.Context, s *phase.Scope) error {
	var ids []cluster.VolumeID
	wanted := map[cluster.VolumeID]*Volume{}
	for i := range t.volumes {
		v := &t.volumes[i]
		v.ID = t.created[v.Snapshot] // a resumed run knows them from the journal
		ids = append(ids, v.ID)
		wanted[v.ID] = v
	}
	s.Expect(int64(len(ids)), "volumes")
	return until(ctx, "wait for volumes", t.opts.Target.String(), func(ctx context.Context) (bool, error) {
		found, err := t.EBS.DescribeVolumes(ctx, ids)
		if err != nil {
			return false, err
		}
		ready := 0
		for _, v := range found {
			switch v.State {
			case ebs.VolumeAvailable, ebs.VolumeInUse:
				if err := matches(wanted[v.ID], v); err != nil {
					return false, err
				}
				ready++
			case ebs.VolumeError, ebs.VolumeDeleting, ebs.VolumeDeleted:
				return false, failure.New(failure.Corrupt, "create volume", string(v.ID), "its state is %s", v.State).
					WithHint("run the restore again")
			case ebs.VolumeCreating: // not yet
			}
		}
		s.Reached(int64(ready))
		return ready == len(ids), nil
	})
}

// matches checks that EC2 made what was asked for.
func matches(want *Volume, got ebs.Volume) error {
	switch {
	case got.Spec.Type != want.Spec.Type,
		want.Spec.IOPS != 0 && got.Spec.IOPS != want.Spec.IOPS,
		want.Spec.ThroughputMiB != 0 && got.Spec.ThroughputMiB != want.Spec.ThroughputMiB,
		got.Spec.SizeGiB != want.Spec.SizeGiB, got.Zone != want.Zone:
		return failure.New(failure.Corrupt, "check volume", string(got.ID), "it is %+v in %s, and %+v in %s was asked for",
			got.Spec, got.Zone, want.Spec, want.Zone)
	}
	return nil
}

// bindVolumes makes the PVs and PVCs that the target's pods look for.
func (t *task) bindVolumes(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(t.volumes)), "volumes")
	errs := make([]error, len(t.volumes))
	limit := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i, v := range t.volumes {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			errs[i] = t.Kube.BindVolume(ctx, kube.RestoredVolume{
				Cluster: t.opts.Target, Run: t.opts.Run, Ordinal: v.Ordinal, Role: v.Role, MountPath: v.Mount,
				Volume: v.ID, Zone: v.Zone, SizeGiB: v.Spec.SizeGiB, Claim: v.claim, Object: v.object,
			})
			s.Advance(1)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
