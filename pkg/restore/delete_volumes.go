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
	"github.com/tisnap/tisnap/pkg/wait"
)

// deleteVolumes deletes the run's volumes, those known and those that only their tag shows. While the
// answer of a request is missing it asks again, until EC2 cannot hide the volume any more. One that is
// attached is waited for, as its pod is going away, and is never forced. All are tried, whatever fails.
func (r *run) deleteVolumes(ctx context.Context, s *phase.Scope) error {
	if r.keeps() {
		s.Note("the volumes tagged %s=%s are kept", ebs.TagRun, r.opts.Run)
		return nil
	}
	if r.bound {
		s.Warn("the volumes tagged %s=%s are kept: claims of %s, which is kept, are bound to them", ebs.TagRun, r.opts.Run, r.opts.Target)
		return nil
	}
	hiddenUntil := time.Now().Add(r.opts.Visibility)
	gone := map[cluster.VolumeID]bool{}
	for waiting := false; ; {
		asked := time.Now() // not the end of the deletions, which may take longer than EC2 hides a volume
		doomed, findErr := r.doomed(ctx, gone)
		s.Expect(int64(len(doomed)+len(gone)), "volumes")
		if failure.Is(findErr, failure.Conflict) {
			return findErr
		}
		errs := []error{findErr}
		left := ebs.DeleteEach(ctx, doomed, r.deleteVolume, func(id cluster.VolumeID) {
			gone[id] = true
			s.Reached(int64(len(gone)))
		})
		errs = append(errs, slices.Collect(maps.Values(left))...)
		if err := errors.Join(errs...); err != nil {
			return r.leftover(doomed, gone, err)
		}
		if !r.unanswered(len(gone)) || asked.After(hiddenUntil) {
			r.Remains.Clear(remainsVolumes)
			return nil
		} else if !waiting {
			waiting = true
			s.Note("waiting until %s for volumes that EC2 may still make of a request whose answer is late, to delete them; if this process has to end before: %s",
				hiddenUntil.UTC().Format(time.RFC3339), r.removal())
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return r.leftover(nil, gone, err)
		}
	}
}

// keptVolumes is what is said of them when the lock is lost.
func (r *run) keptVolumes() string {
	return fmt.Sprintf("the volumes tagged %s=%s are kept: another process may continue the run with them; else tisnap gc deletes them", ebs.TagRun, r.opts.Run)
}

// doomed lists the run's volumes that are not gone yet; on an error those that are known without EC2, and none if a later process of
// the run asked for one, or took it over: that process has the lock.
func (r *run) doomed(ctx context.Context, gone map[cluster.VolumeID]bool) ([]cluster.VolumeID, error) {
	var ids []cluster.VolumeID
	seen := map[cluster.VolumeID]bool{"": true}
	add := func(id cluster.VolumeID) {
		if !seen[id] && !gone[id] {
			ids = append(ids, id)
		}
		seen[id] = true
	}
	for _, v := range r.volumes {
		add(v.ID)
	}
	found, err := r.EBS.FindVolumes(ctx, ebs.Tags{ebs.TagRun: string(r.opts.Run)})
	for _, v := range found {
		if err := v.Tags.MadeLater("delete volumes", r.opts.Run, string(v.ID), r.runner.Fence().Epoch()); err != nil {
			return nil, err
		}
		if v.Tags[ebs.TagRole] != rolePD { // goes with its claim, or stays with a persistent volume that is named
			add(v.ID)
		}
	}
	return ids, failure.Annotate(err, "find volumes", "run "+string(r.opts.Run))
}

// unanswered reports whether a volume may exist that nothing was heard of. A failed volume and its replacement are two.
func (r *run) unanswered(gone int) bool {
	return r.asked && gone < len(r.volumes)+r.replaced
}

func (r *run) deleteVolume(ctx context.Context, id cluster.VolumeID) error {
	return poll(ctx, "delete volume", string(id), func(ctx context.Context) (bool, error) {
		err := r.EBS.DeleteVolume(ctx, id)
		if failure.Is(err, failure.Conflict) && !r.existing {
			return false, nil // still attached: its pod is going away with the cluster
		}
		return err == nil, err
	})
}

func (r *run) leftover(doomed []cluster.VolumeID, gone map[cluster.VolumeID]bool, err error) error {
	var names []string
	for _, id := range doomed {
		if !gone[id] {
			names = append(names, string(id))
		}
	}
	what := fmt.Sprintf("%d may be left (%s)", len(names), strings.Join(names, " "))
	if len(names) == 0 {
		what = "some may be left that EC2 has not shown yet"
	}
	return &failure.Error{
		Op: "delete volumes", Target: "run " + string(r.opts.Run), Kind: failure.KindOf(err),
		Hint: "run: tisnap gc --storage " + r.Store.URL() + " --yes (an hour later, or with --older-than 0s); the volumes carry the tag " + ebs.TagRun + "=" + string(r.opts.Run),
		Err:  fmt.Errorf("%s: %w", what, err),
	}
}
