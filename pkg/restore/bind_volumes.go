package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// bindVolumes creates the PVs and PVCs that the target's pods expect.
func (r *run) bindVolumes(ctx context.Context, s *phase.Scope) error {
	made := r.restored()
	s.Expect(int64(len(made)), "volumes")
	return parallel.Each(ctx, 16, made, func(ctx context.Context, _ int, v kube.RestoredVolume) error {
		defer s.Advance(1)
		return r.target.bind(ctx, v)
	})
}

// unbindVolumes deletes the PVs and PVCs that the run created for an existing target; its own target took them along.
// Once TiKV may start, its pods use them, and they are kept with their volumes.
func (r *run) unbindVolumes(ctx context.Context, s *phase.Scope) error {
	if !r.target.existing || r.keeps() {
		return nil
	}
	return r.target.unbind(ctx)
}

// bind creates the PV and the PVC of a volume.
func (t *target) bind(ctx context.Context, v kube.RestoredVolume) error {
	return t.kube.BindVolume(ctx, v)
}

// unbind deletes what bind created, unless pods may use it.
func (t *target) unbind(ctx context.Context) error {
	if t.started {
		t.bound = true
		return failure.New(failure.Partial, "unbind volumes", t.opts.Target.String(),
			"its pods may use them, so its PVCs and volumes stay").
			WithHint("when its pods are gone, delete the PVCs and PVs labelled %s=%s, then run: tisnap gc", runmark.Key,
				t.opts.Run)
	}
	err := t.kube.DeleteRestored(ctx, t.opts.Target, t.opts.Run)
	t.bound = err != nil
	return err
}
