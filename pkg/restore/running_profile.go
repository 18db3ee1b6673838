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
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// planAfter completes the profile that the volumes get once the cluster serves, and checks it.
func planAfter(volumes []Volume, after cluster.VolumeSpec) error {
	if after == (cluster.VolumeSpec{}) {
		return nil
	}
	for i := range volumes {
		v := &volumes[i]
		spec, err := ebs.ResolveSpec(after, v.Spec, v.Spec.SizeGiB)
		if err != nil {
			return failure.Annotate(err, "plan volume after the restore", "store "+v.Store.String()+" "+string(v.Role))
		}
		v.After = &spec
	}
	return nil
}

// modifyDeadline bounds the wait until EC2 has taken the new parameters on: minutes, commonly.
const modifyDeadline = 15 * time.Minute

// modifyVolumes gives the volumes the profile for running. The cluster serves already, so what EC2 refuses
// (it takes one modification of a volume in six hours) is reported and ends nothing.
func (r *run) modifyVolumes(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := context.WithTimeout(ctx, min(modifyDeadline, r.opts.Timeout))
	defer cancel()
	s.Expect(int64(len(r.volumes)), "volumes")
	errs := make([]error, len(r.volumes))
	err := parallel.Each(ctx, 0, r.volumes, func(ctx context.Context, i int, v Volume) error {
		if v.After == nil || *v.After == v.Spec {
			return nil
		}
		if err := r.runner.Fence().Check(ctx); err != nil {
			return err
		}
		var m ebs.Modification
		m, errs[i] = r.EBS.ModifyVolume(ctx, v.ID, *v.After)
		r.volumes[i].modified = errs[i] == nil && m.Accepted() // no modification is needed for what it has already
		return nil
	})
	if err != nil {
		return err // a panic, or the run ends
	}
	for _, v := range r.volumes {
		if v.modified {
			s.Advance(1)
		}
	}
	r.awaitModified(ctx, s, errs)
	var refused []string
	for i, err := range errs {
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s (%v)", r.volumes[i].ID, err))
		}
	}
	if len(refused) > 0 {
		r.leave("%d of %d volumes keep the performance of the restore, change them by hand: %s",
			len(refused), len(r.volumes), strings.Join(refused, "; "))
	}
	return nil
}

// awaitModified waits until EC2 has taken on what it accepted, and notes what failed afterwards.
func (r *run) awaitModified(ctx context.Context, s *phase.Scope, errs []error) {
	for {
		index := r.toModify(errs)
		if len(index) == 0 {
			return
		}
		found, err := r.EBS.Modifications(ctx, slices.Collect(maps.Keys(index)))
		if err != nil && !failure.Transient(err) {
			for _, i := range index {
				errs[i] = err
			}
			return
		}
		for _, m := range found {
			i := index[m.Volume]
			switch {
			case m.State == ebs.ModificationFailed:
				errs[i] = errors.New("EC2 says that it failed: " + m.Message)
			case m.Accepted():
				r.volumes[i].modified = true
				s.Advance(1)
			}
		}
		if waitErr := wait.For(ctx, pollInterval); waitErr != nil {
			for _, i := range index {
				if errs[i] == nil && !r.volumes[i].modified {
					errs[i] = fmt.Errorf("EC2 has not taken it on yet: %w", waitErr)
				}
			}
			return
		}
	}
}

// toModify are the volumes whose change EC2 has accepted and not yet taken on, by their place in r.volumes.
func (r *run) toModify(errs []error) map[cluster.VolumeID]int {
	index := map[cluster.VolumeID]int{}
	for i, v := range r.volumes {
		if errs[i] == nil && v.After != nil && *v.After != v.Spec && !v.modified {
			index[v.ID] = i
		}
	}
	return index
}
