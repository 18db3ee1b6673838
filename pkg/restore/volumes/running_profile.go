package volumes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// planAfter completes and checks the volumes' profile once the cluster serves.
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

// ModifyDeadline bounds the wait until EC2 has applied the new parameters, normally minutes.
const ModifyDeadline = 15 * time.Minute

// Modify gives the volumes the profile for running. The cluster already serves, so EC2's refusals (it limits the
// modifications of a volume) are returned and do not fail the run.
func (m *Maker) Modify(ctx context.Context, s *phase.Scope) (refused []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(ModifyDeadline, m.opts.Timeout))
	defer cancel()
	s.Expect(int64(len(m.volumes)), "volumes")
	errs := make([]error, len(m.volumes))
	err = parallel.Each(ctx, 0, m.volumes, func(ctx context.Context, i int, v Volume) error {
		if v.After == nil || *v.After == v.Spec {
			return nil
		}
		change, err := m.ec2.ModifyVolume(ctx, v.ID, *v.After)
		if fenced.Refused(err) {
			return err
		}
		errs[i] = err
		// it already has the profile
		m.volumes[i].modified = errs[i] == nil && change.Accepted()
		return nil
	})
	if err != nil {
		return nil, err // a panic, or the run ends
	}
	for _, v := range m.volumes {
		if v.modified {
			s.Advance(1)
		}
	}
	m.awaitModified(ctx, s, errs)
	for i, err := range errs {
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s (%v)", m.volumes[i].ID, err))
		}
	}
	return refused, nil
}

// awaitModified waits until EC2 has applied what it accepted, and records what failed.
func (m *Maker) awaitModified(ctx context.Context, s *phase.Scope, errs []error) {
	for {
		index := m.toModify(errs)
		if len(index) == 0 {
			return
		}
		found, err := m.ec2.Modifications(ctx, slices.Collect(maps.Keys(index)))
		if err != nil && !failure.Transient(err) {
			for _, i := range index {
				errs[i] = err
			}
			return
		}
		for _, change := range found {
			i := index[change.Volume]
			switch {
			case change.State == ebs.ModificationFailed:
				errs[i] = errors.New("it failed: " + change.Message)
			case change.Accepted():
				m.volumes[i].modified = true
				s.Advance(1)
			}
		}
		if waitErr := wait.For(ctx, m.opts.Poll); waitErr != nil {
			for _, i := range index {
				if errs[i] == nil && !m.volumes[i].modified {
					errs[i] = fmt.Errorf("EC2 has not taken it on yet: %w", waitErr)
				}
			}
			return
		}
	}
}

// toModify are the volumes whose change EC2 has accepted and not yet applied, by their index in m.volumes.
func (m *Maker) toModify(errs []error) map[cluster.VolumeID]int {
	index := map[cluster.VolumeID]int{}
	for i, v := range m.volumes {
		if errs[i] == nil && v.After != nil && *v.After != v.Spec && !v.modified {
			index[v.ID] = i
		}
	}
	return index
}
