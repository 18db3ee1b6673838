package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// Prepare is the part of a restore before TiKV starts, for a cluster created by others, such as TiDB Operator, which
// also binds the volumes. It marks the PD of a cluster in recovery mode without stores as recovering and raises its ts,
// makes the volumes, and hands them over by Deps.HandOver once all are available and as requested. A failed run deletes
// its volumes; PD's mark and ts stay, as they are harmless in a cluster without stores. If the cluster spans several
// Kubernetes clusters, each part is prepared by its own run, in any order and concurrently.
//
// Of Deps, Kube is not used; HandOver is required. Of Options, those about Kubernetes and about the data are not used.
func Prepare(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	r := newRun(deps, opts, byBR)
	about := journal.About{Operation: journal.Restore, Kubernetes: opts.Kubernetes, Keep: opts.KeepOnFailure}
	err := r.execute(ctx, about, r.prepareSteps(), nil)
	return &r.result, r.conclude(err)
}

// prepareSteps is the runbook of the volumes alone.
func (r *run) prepareSteps() []phase.Step {
	return repeated(
		[]phase.Step{
			{
				Phase: phaseVolumes, Name: "load", Deadline: 5 * time.Minute, Do: r.load, ReadOnly: true, Retry: true,
				Patience: preflight.Patience,
			},
			{
				Phase: phaseVolumes, Name: "preflight", Deadline: 5 * time.Minute, Do: r.preflightVolumes,
				ReadOnly: true, Retry: true, Patience: preflight.Patience,
			},
			{Phase: phaseVolumes, Name: "find-pd", Deadline: r.opts.Timeout, Do: r.findEmptyPD, ReadOnly: true},
		},
		[]phase.Step{r.runner.LockStep(phaseVolumes, r.runner.Lock), {
			Phase: phaseVolumes, Name: "mark-recovering", Deadline: 5 * time.Minute, Do: r.markEmptyPD, Retry: true,
		}},
		r.makeVolumesSteps(),
		[]phase.Step{{Phase: phaseVolumes, Name: journal.StepHandOver, Deadline: 5 * time.Minute, Do: r.handOver}},
		r.lastFastSteps(phaseVolumes),
		[]phase.Step{r.runner.UnlockStep(phaseVolumes, journal.StepCreateVolumes)},
	)
}

// preflightVolumes checks everything about the volumes that could fail later, without changes: the account, their
// parameters and zones, the snapshots, quotas and permissions.
func (r *run) preflightVolumes(ctx context.Context, s *phase.Scope) error {
	if err := r.checkAccount(ctx); err != nil {
		return err
	}
	plan, err := r.planVolumes(ctx)
	if err != nil {
		return err
	}
	if plan, err = r.checkSnapshots(ctx, plan); err != nil {
		return err
	}
	return r.begin(ctx, s, plan)
}

// findEmptyPD connects to the target's PD, which must have no store yet: marking a serving cluster would put it into
// recovery mode at its next restart. Stores of parts in other Kubernetes clusters may be there, under the mark.
func (r *run) findEmptyPD(ctx context.Context, s *phase.Scope) error {
	return r.target.poll(ctx, s, "connect to PD", func(ctx context.Context) (bool, error) {
		if err := r.pd.connect(ctx, nil); err != nil {
			return false, err
		}
		stores, err := r.pd.Stores(ctx)
		if failure.Is(err, failure.Unready) { // PD is not bootstrapped: no stores
			return true, nil
		}
		if err != nil {
			return false, err
		}
		err = r.pd.checkStores(ctx, stores, r.backup.elsewhere)
		return err == nil, err
	})
}

// markEmptyPD marks the target's PD as recovering. It first checks once more that no store serves: while this run
// waited for the lock, its holder may have brought the cluster up.
func (r *run) markEmptyPD(ctx context.Context, s *phase.Scope) error {
	stores, err := r.pd.Stores(ctx)
	if err != nil && !failure.Is(err, failure.Unready) { // PD is not bootstrapped: no stores
		return failure.Annotate(err, "list stores", r.opts.Target.String())
	}
	if err := r.pd.checkStores(ctx, stores, r.backup.elsewhere); err != nil {
		return err
	}
	return r.markRecovering(ctx, s)
}

// handOver hands the volumes over to TiDB Operator, which binds them. From then on persistent volumes may name them.
func (r *run) handOver(ctx context.Context, _ *phase.Scope) error {
	return r.HandOver(ctx, r.making.Volumes())
}
