package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// deleteVolumes deletes the run's volumes, those known and those that only their tag tells of. While the
// answer of a request is missing it looks again, until EC2 cannot hide the volume any more. One that is
// attached is waited for, as its pod is going away, and is never forced. All are tried, whatever fails.
func (t *task) deleteVolumes(ctx context.Context, s *phase.Scope) error {
	if t.opts.KeepOnFailure || t.fence.Taken(ctx) {
		s.Note("the volumes tagged %s=%s are kept", ebs.TagRun, t.opts.Run)
		return nil
	}
	hiddenUntil := time.Now().Add(t.opts.Visibility)
	gone := map[cluster.VolumeID]bool{}
	for {
		doomed, findErr := t.doomed(ctx, gone)
		s.Expect(int64(len(doomed)+len(gone)), "volumes")
		errs := []error{findErr}
		left := ebs.DeleteEach(ctx, doomed, t.deleteVolume, func(id cluster.VolumeID) {
			gone[id] = true
			s.Reached(int64(len(gone)))
		})
		errs = append(errs, slices.Collect(maps.Values(left))...)
		if err := errors.Join(errs...); err != nil {
			return t.leftover(doomed, gone, err)
		}
		if !t.unanswered(len(gone)) || time.Now().After(hiddenUntil) {
			return nil
		}
		if err := sleep(ctx, look); err != nil {
			return t.leftover(nil, gone, err)
		}
	}
}

// doomed lists the run's volumes that are not gone yet; on an error those that are known without EC2.
func (t *task) doomed(ctx context.Context, gone map[cluster.VolumeID]bool) ([]cluster.VolumeID, error) {
	var ids []cluster.VolumeID
	seen := map[cluster.VolumeID]bool{"": true}
	add := func(id cluster.VolumeID) {
		if !seen[id] && !gone[id] {
			ids = append(ids, id)
		}
		seen[id] = true
	}
	for _, v := range t.volumes {
		add(v.ID)
	}
	found, err := t.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(t.opts.Run)})
	for _, v := range found {
		add(v.ID)
	}
	return ids, failure.Annotate(err, "find volumes", "run "+string(t.opts.Run))
}

// unanswered reports whether a volume may exist that nothing was heard of.
func (t *task) unanswered(gone int) bool {
	return t.asked && gone < len(t.volumes)
}

func (t *task) deleteVolume(ctx context.Context, id cluster.VolumeID) error {
	return until(ctx, "delete volume", string(id), func(ctx context.Context) (bool, error) {
		err := t.EBS.DeleteVolume(ctx, id)
		if failure.Is(err, failure.Conflict) && !t.existing {
			return false, nil // still attached: its pod is going away with the cluster
		}
		return err == nil, err
	})
}

func (t *task) leftover(doomed []cluster.VolumeID, gone map[cluster.VolumeID]bool, err error) error {
	var names []string
	for _, id := range doomed {
		if !gone[id] {
			names = append(names, string(id))
		}
	}
	return &failure.Error{
		Op: "delete volumes", Target: "run " + string(t.opts.Run), Kind: failure.KindOf(err),
		Hint: "delete the volumes tagged " + ebs.TagRun + "=" + string(t.opts.Run) + " by hand",
		Err:  fmt.Errorf("%d may be left (%s): %w", len(names), strings.Join(names, " "), err),
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
