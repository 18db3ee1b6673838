package restore

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// newMaking returns the maker of the run's volumes.
func (r *run) newMaking() making {
	owner := volumes.Owner{Runner: r.runner, Run: r.opts.Run, Backup: r.opts.Backup, Target: r.opts.Target}
	if r.Store != nil { // nil in an outline
		owner.Storage = r.Store.URL()
	}
	options := r.opts.ofVolumes(r.backup.multiCluster)
	made := making{
		Maker: volumes.NewMaker(r.EBS, owner, options, r.Remains, r.arrival.times),
		fast:  volumes.NewFast(r.EBS, owner, options),
	}
	switch {
	case r.Fill != nil:
		made.filler = filled.NewMaker(r.Fill, r.Archive, owner, r.Remains)
	case r.Archive != nil:
		made.snapshots = fromarchive.NewMaker(r.Archive, r.EBS, owner, fromarchive.Options{
			KMSKey: r.opts.KMSKey, Encrypt: r.opts.Encrypt, Visibility: r.opts.Visibility, Poll: pollInterval,
		}, r.Remains)
	}
	return made
}

// planner plans the volumes and checks for refusals.
func (r *run) planner() volumes.Planner {
	return volumes.Planner{
		EC2: r.EBS, Manifest: r.backup.Manifest, Options: r.making.Options(), FromArchive: r.Archive != nil,
	}
}

// enableFast requests fast snapshot restore, and waits until every snapshot is enabled and has a whole credit: volumes
// made earlier are not initialized.
func (m *making) enableFast(ctx context.Context, s *phase.Scope) error {
	return m.fast.Enable(ctx, s)
}

// disableFast ends the fast snapshot restore that this run enabled, which is billed by the hour.
func (m *making) disableFast(ctx context.Context, s *phase.Scope) error {
	return m.fast.Disable(ctx, s)
}

// endFast ends fast snapshot restore once the volumes are made. A failure does not waste the hours that it took: the
// run continues, retries at its end, and reports what is left.
func (m *making) endFast(ctx context.Context, s *phase.Scope) error { return m.fast.End(ctx, s) }

// lastFast ends what is still enabled at the end of an otherwise successful run.
func (r *run) lastFast(ctx context.Context, s *phase.Scope) error {
	if err := r.making.fast.EndAtLast(ctx, s); err != nil {
		r.leave("fast snapshot restore is still enabled and billed by AWS by the hour, end it with `tisnap gc`: %v",
			err)
	}
	return nil
}

// createVolumes requests all volumes concurrently, or in waves if EC2 initializes them; the adapter paces the calls.
// After a lost answer the request is repeated with the same token, which returns the same volume.
func (m *making) createVolumes(ctx context.Context, s *phase.Scope) (err error) {
	m.created, err = m.Create(ctx, s)
	return err
}

// adoptVolumes takes over the volumes that an earlier process made.
func (m *making) adoptVolumes(ctx context.Context, s *phase.Scope) error {
	return m.Adopt(ctx, s, m.created)
}

// awaitVolumes waits until all volumes are available and as requested. A volume that fails, or that EC2 does not show
// for longer than it may hide a new one, is replaced.
func (m *making) awaitVolumes(ctx context.Context, s *phase.Scope) error { return m.Await(ctx, s) }

// deleteVolumes deletes the run's volumes, known ones and those found by tag. While a request is unanswered it looks
// again, until EC2 cannot hide its volume any more. It waits for attached volumes, whose pods are terminating, and
// never forces a detach. All are tried, whatever fails.
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

// modifyVolumes gives the volumes the profile for running. The cluster already serves, so EC2's refusals (it limits the
// modifications of a volume) are reported and do not fail the run.
func (r *run) modifyVolumes(ctx context.Context, s *phase.Scope) error {
	refused, err := r.making.Modify(ctx, s)
	if len(refused) > 0 {
		r.leave("%d of %d volumes keep the performance of the restore, change them by hand: %s",
			len(refused), len(r.making.Volumes()), strings.Join(refused, "; "))
	}
	return err
}

// tagPDVolumes tags PD's volumes in a cluster that the run created.
func (r *run) tagPDVolumes(ctx context.Context, s *phase.Scope) {
	if r.EBS == nil {
		return
	}
	ids, err := r.target.pdVolumes(ctx)
	if err != nil {
		s.Warn("the EBS volumes of PD are not tagged, so that tisnap gc will not find them: %v", err)
		return
	}
	r.making.TagPD(ctx, s, ids)
}
