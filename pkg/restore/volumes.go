package restore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
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
	for wait := look; ; wait = min(2*wait, 10*time.Second) {
		made, err := t.EBS.CreateVolume(ctx, req)
		if err == nil {
			return made.ID, nil
		}
		if k := failure.KindOf(err); k != failure.Unknown && k != failure.Limited {
			return "", err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
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

// deleteVolumes deletes the run's volumes, those known and those that only their tag tells of. One that is
// attached is waited for, as its pod is going away, and is never forced.
func (t *task) deleteVolumes(ctx context.Context, s *phase.Scope) error {
	if t.opts.KeepOnFailure {
		s.Note("the volumes tagged %s=%s are kept", ebs.TagRun, t.opts.Run)
		return nil
	}
	doomed := map[cluster.VolumeID]bool{}
	for _, v := range t.volumes {
		if v.ID != "" {
			doomed[v.ID] = true
		}
	}
	found, err := t.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run)})
	if err != nil {
		return t.leftover(doomed, err)
	}
	for _, v := range found {
		doomed[v.ID] = true
	}
	s.Expect(int64(len(doomed)), "volumes")
	for id := range doomed {
		err := until(ctx, "delete volume", string(id), func(ctx context.Context) (bool, error) {
			err := t.EBS.DeleteVolume(ctx, id)
			if failure.Is(err, failure.Conflict) && !t.existing {
				return false, nil // still attached: its pod is going away with the cluster
			}
			return err == nil, err
		})
		if err != nil {
			return t.leftover(doomed, err)
		}
		delete(doomed, id)
		s.Advance(1)
	}
	return nil
}

func (t *task) leftover(doomed map[cluster.VolumeID]bool, err error) error {
	names := make([]string, 0, len(doomed))
	for id := range doomed {
		names = append(names, string(id))
	}
	return &failure.Error{
		Op: "delete volumes", Target: "run " + string(t.opts.Run), Kind: failure.KindOf(err),
		Hint: "delete the volumes tagged " + ebs.TagRun + "=" + string(t.opts.Run) + " by hand",
		Err:  fmt.Errorf("%d may be left (%s): %w", len(names), strings.Join(names, " "), err),
	}
}
