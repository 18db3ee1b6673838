package restore

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// newMaking is what makes the run's volumes, and has made none yet; br is of a run whose volumes TiDB Operator binds.
func (r *run) newMaking(br bool) making {
	owner := volumes.Owner{Runner: r.runner, Run: r.opts.Run, Backup: r.opts.Backup, Target: r.opts.Target}
	if r.Store != nil { // nil in an outline
		owner.Storage = r.Store.URL()
	}
	options := r.opts.ofVolumes(br)
	return making{
		Maker: volumes.NewMaker(r.EBS, owner, options, r.Remains, r.arrival.times),
		fast:  volumes.NewFast(r.EBS, owner, options),
	}
}

// planner plans the volumes and checks what would refuse them.
func (r *run) planner() volumes.Planner {
	return volumes.Planner{EC2: r.EBS, Manifest: r.backup.Manifest, Options: r.making.Options()}
}

// The steps below ask the run for its making, as a run that starts over has another one.

// enableFast asks for fast snapshot restore, and waits until every snapshot is enabled and has a whole credit: a volume
// made before is as cold as any.
func (r *run) enableFast(ctx context.Context, s *phase.Scope) error {
	return r.making.fast.Enable(ctx, s)
}

// disableFast ends the fast snapshot restore that this run enabled: it is billed by the hour.
func (r *run) disableFast(ctx context.Context, s *phase.Scope) error {
	return r.making.fast.Disable(ctx, s)
}

// endFast ends fast snapshot restore once the volumes are made. The hours that it took are not thrown away because the
// end of it failed: the run continues, retries at its end, and says what is left.
func (r *run) endFast(ctx context.Context, s *phase.Scope) error { return r.making.fast.End(ctx, s) }

// lastFast ends what is still enabled at the end of a run that succeeded otherwise.
func (r *run) lastFast(ctx context.Context, s *phase.Scope) error {
	if err := r.making.fast.EndAtLast(ctx, s); err != nil {
		r.leave("fast snapshot restore is still enabled and billed by AWS by the hour, end it with `tisnap gc`: %v",
			err)
	}
	return nil
}

// createVolumes asks for all volumes at the same time, or in waves where EC2 is to fill them; the adapter paces
// the calls. A lost answer is asked for again with the same token, which gives the same volume.
func (r *run) createVolumes(ctx context.Context, s *phase.Scope) (err error) {
	r.making.created, err = r.making.Create(ctx, s)
	return err
}

// awaitVolumes waits until all volumes are available and have what was asked for. One that EC2 shows as failed, or does
// not show for longer than it may hide a new one, is replaced.
func (r *run) awaitVolumes(ctx context.Context, s *phase.Scope) error { return r.making.Await(ctx, s) }

// deleteVolumes deletes the run's volumes, those known and those that only their tag shows. While the
// answer of a request is missing it asks again, until EC2 cannot hide the volume any more. One that is
// attached is waited for, as its pod is going away, and is never forced. All are tried, whatever fails.
func (r *run) deleteVolumes(ctx context.Context, s *phase.Scope) error {
	if r.keeps() {
		s.Note("the volumes tagged %s=%s are kept", ebs.TagRun, r.opts.Run)
		return nil
	}
	if r.target.bound {
		s.Warn("the volumes tagged %s=%s are kept: claims of %s, which is kept, are bound to them", ebs.TagRun,
			r.opts.Run, r.opts.Target)
		return nil
	}
	return r.making.Delete(ctx, s, !r.target.existing)
}

// modifyVolumes gives the volumes the profile for running. The cluster serves already, so what EC2 refuses
// (it takes one modification of a volume in six hours) is reported and ends nothing.
func (r *run) modifyVolumes(ctx context.Context, s *phase.Scope) error {
	refused, err := r.making.Modify(ctx, s)
	if len(refused) > 0 {
		r.leave("%d of %d volumes keep the performance of the restore, change them by hand: %s",
			len(refused), len(r.making.Plan().Volumes), strings.Join(refused, "; "))
	}
	return err
}

// tagPDVolumes tags what Kubernetes made for PD of a cluster that the run made.
func (r *run) tagPDVolumes(ctx context.Context, s *phase.Scope) {
	if r.target.existing {
		return
	}
	ids, err := r.Kube.MadeForTarget(ctx, r.opts.Target, r.opts.Run)
	if err != nil {
		s.Warn("the EBS volumes of PD are not tagged, so that tisnap gc will not find them: %v", err)
		return
	}
	r.making.TagPD(ctx, s, ids)
}
