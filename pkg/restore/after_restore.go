package restore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// planAfter completes the profile that the volumes get once their data serve, and checks it.
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
func (t *task) modifyVolumes(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := context.WithTimeout(ctx, min(modifyDeadline, t.opts.Timeout))
	defer cancel()
	s.Expect(int64(len(t.volumes)), "volumes")
	errs := make([]error, len(t.volumes))
	var wg sync.WaitGroup
	for i, v := range t.volumes {
		if v.After == nil || *v.After == v.Spec {
			continue
		}
		wg.Go(func() {
			m, err := t.EBS.ModifyVolume(ctx, v.ID, *v.After)
			errs[i] = err
			t.volumes[i].modified = err == nil && m.Accepted() // no modification is needed for what it has already
		})
	}
	wg.Wait()
	for _, v := range t.volumes {
		if v.modified {
			s.Advance(1)
		}
	}
	t.awaitModified(ctx, s, errs)
	var refused []string
	for i, err := range errs {
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s (%v)", t.volumes[i].ID, err))
		}
	}
	if len(refused) > 0 {
		t.leave("%d of %d volumes keep the performance of the restore, change them by hand: %s",
			len(refused), len(t.volumes), strings.Join(refused, "; "))
	}
	return nil
}

// awaitModified waits until EC2 has taken on what it accepted, and notes what failed afterwards.
func (t *task) awaitModified(ctx context.Context, s *phase.Scope, errs []error) {
	for {
		index := t.toModify(errs)
		if len(index) == 0 {
			return
		}
		found, err := t.EBS.Modifications(ctx, slices.Collect(maps.Keys(index)))
		if err != nil && !transient(err) {
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
				t.volumes[i].modified = true
				s.Advance(1)
			}
		}
		if waitErr := wait.For(ctx, look); waitErr != nil {
			for _, i := range index {
				if errs[i] == nil && !t.volumes[i].modified {
					errs[i] = fmt.Errorf("EC2 has not taken it on yet: %w", waitErr)
				}
			}
			return
		}
	}
}

// toModify are the volumes whose change EC2 has accepted and not yet taken on, by their place in t.volumes.
func (t *task) toModify(errs []error) map[cluster.VolumeID]int {
	index := map[cluster.VolumeID]int{}
	for i, v := range t.volumes {
		if errs[i] == nil && v.After != nil && *v.After != v.Spec && !v.modified {
			index[v.ID] = i
		}
	}
	return index
}

// leave notes something that the run could not do and that needs a person, though the cluster serves.
func (t *task) leave(format string, args ...any) {
	t.result.Left = append(t.result.Left, fmt.Sprintf(format, args...))
}

// left is the error of a run that did its work but for this.
func (t *task) left() error {
	if len(t.result.Left) == 0 {
		return nil
	}
	return failure.New(failure.Partial, "finish restore", t.opts.Target.String(), "the cluster serves its data, but %s",
		strings.Join(t.result.Left, "; "))
}
