package restore

import (
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// preflight checks everything that could fail later, without changes: the account, the volumes' parameters and zones,
// the target, the snapshots, quotas and permissions.
func (r *run) preflight(ctx context.Context, s *phase.Scope) error {
	if err := r.checkWay(); err != nil {
		return err
	}
	if r.Fill == nil {
		if err := r.checkAccount(ctx); err != nil {
			return err
		}
	}
	if err := r.checkTolerated(); err != nil {
		return err
	}
	if err := r.checkTiFlash(s); err != nil {
		return err
	}
	if warning := preflight.CheckBlockedStores(r.backup.Source.Version); warning != "" {
		r.warn(s, warning)
	}
	if r.Fill != nil {
		return r.preflightFilled(ctx, s)
	}
	plan, err := r.planVolumes(ctx)
	if err != nil {
		return err
	}
	plan, dropped, err := r.nameVolumes(plan)
	if err != nil {
		return err
	}
	if r.runner.Resumed() { // what exists already must not be requested again
		if plan, err = r.checkSnapshots(ctx, plan); err != nil {
			return err
		}
		if err := r.making.fast.Check(ctx, plan.Volumes, ebs.AccountQuotas{}); err != nil {
			return err
		}
		r.expectDuration(s)
		return r.target.find(ctx, r.backup.Manifest, &r.earlier)
	}
	if err := r.target.check(ctx, r.backup.Manifest); err != nil {
		return err
	}
	if plan, err = r.checkSnapshots(ctx, plan); err != nil {
		return err
	}
	return r.begin(ctx, s, plan, func() error { return r.checkKubernetes(ctx, s, plan, dropped) })
}

// begin checks whether EC2, or anything else, would refuse the volumes, and estimates how long the run takes.
func (r *run) begin(ctx context.Context, s *phase.Scope, plan volumes.Plan, between ...func() error) error {
	if err := r.planner().CheckQuotas(ctx, s, plan, r.making.fast); err != nil {
		return err
	}
	if err := r.planner().CheckKeys(ctx, s, plan); err != nil {
		return err
	}
	for _, check := range between {
		if err := check(); err != nil {
			return err
		}
	}
	if err := r.planner().Probe(ctx, s, plan, r.result.Account); err != nil {
		return err
	}
	r.expectDuration(s)
	return nil
}

// checkKubernetes checks whether the target may be created, with a server-side dry run of all its objects.
func (r *run) checkKubernetes(ctx context.Context, s *phase.Scope, plan volumes.Plan, dropped []string) error {
	if err := r.target.checkAllowed(ctx, r.backup.objects, plan, len(r.backup.Source.Stores)); err != nil {
		return err
	}
	if len(dropped) > 0 && !r.target.existing {
		s.Warn("settings of the source's services are not in the copy (--keep-service-settings keeps them): %s",
			strings.Join(dropped, "; "))
	}
	return nil
}

// checkAccount checks the account and region of the volumes.
func (r *run) checkAccount(ctx context.Context) error {
	account, err := r.planner().CheckAccount(ctx)
	r.result.in(account)
	return err
}

// planVolumes plans the volumes and their zones.
func (r *run) planVolumes(ctx context.Context) (volumes.Plan, error) {
	plan, err := r.planner().Plan(ctx)
	r.making.Begin(plan)
	return plan, err
}

// checkSnapshots checks the snapshots, and returns the plan with what EC2 knows about them.
func (r *run) checkSnapshots(ctx context.Context, plan volumes.Plan) (_ volumes.Plan, err error) {
	if r.Archive != nil && len(r.making.made) == 0 { // they do not exist yet
		data, largest := r.Archive.Bytes()
		plan = r.planner().WithoutSnapshots(plan, data, largest)
	} else {
		plan, err = r.planner().CheckSnapshots(ctx, plan)
	}
	r.making.Begin(plan)
	return plan, err
}

// nameVolumes returns the plan with the volumes' names in Kubernetes, and which settings of the source's services the
// target does not get.
func (r *run) nameVolumes(plan volumes.Plan) (_ volumes.Plan, dropped []string, err error) {
	checked, err := kube.CheckRestored(r.backup.objects,
		r.target.asTarget(plan, len(r.backup.Source.Stores)), r.target.planned(plan.Volumes))
	if err != nil {
		return plan, nil, err
	}
	return plan.Named(checked.Names), checked.Dropped, nil
}
