package restore

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runs"
)

// ResolveData is Resolve for a cluster that is taken out of recovery mode by others, such as TiDB Operator: it begins
// with stores running in recovery mode, and ends with PD's mark removed and PD scheduling again, before the stores
// restart. On a failure the mark stays, for the next try. A cluster without the mark is refused: a flashback would
// remove what was written since the backup. A killed run is resumed.
//
// If the cluster spans several Kubernetes clusters, one run resolves the stores of all parts, once all are up: that of
// the part with the lowest backup ts. Everything below that was resolved before the first cut, and so is in every part.
//
// Deps' EBS, Kube and HandOver, and Options about volumes and Kubernetes are not used.
func ResolveData(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	r := newRun(deps, opts, byBR)
	err := r.execute(ctx, journal.About{Operation: journal.Resolve}, r.dataSteps(), nil)
	return &r.result, r.conclude(err)
}

// dataSteps is the runbook of the data alone.
func (r *run) dataSteps() []phase.Step {
	return repeated(
		[]phase.Step{
			{
				Phase: phaseData, Name: "load", Deadline: 5 * time.Minute, Do: r.load, ReadOnly: true, Retry: true,
				Patience: preflight.Patience,
			},
			{Phase: phaseData, Name: "find-pd", Deadline: 5 * time.Minute, Do: r.findMarkedPD, ReadOnly: true},
		},
		[]phase.Step{r.runner.LockStep(phaseData, r.lockMarked)},
		mayBeLate(
			[]phase.Step{
				{Phase: phaseData, Name: "raise-ts", Deadline: 5 * time.Minute, Do: r.raiseTS, Retry: true},
				r.awaitStoresStep(phaseData),
				r.checkTasksStep(),
			},
			r.resolver.Steps(phaseData, r.resolverOptions()),
			[]phase.Step{{
				Phase: phaseTiDB, Name: "check-tasks-again", Deadline: 5 * time.Minute, Do: r.checkTasksAgain,
				Retry: true,
			}},
			r.pdStateSteps("put-pd-state", r.putPDState),
			[]phase.Step{
				{
					Phase: phaseTiDB, Name: "unmark-recovering", Deadline: 10 * time.Minute, Do: r.unmarkRecovering,
					Retry: true, Order: phase.Order{Ends: []string{journal.StepRecover}},
				},
				{
					Phase: phaseTiDB, Name: "thaw", Deadline: 5 * time.Minute, Do: r.thawAll,
					Order: phase.Order{Ends: []string{journal.StepFreezeScheduling}}, Retry: true,
				},
			},
			r.pdStateSteps("check-pd-state", r.checkPDState),
		),
		[]phase.Step{r.runner.UnlockStep(phaseTiDB)},
	)
}

// findMarkedPD connects to a PD marked as recovering, and determines the restore's state. One without the mark is
// refused, unless an earlier run resolved the data and was killed after that.
func (r *run) findMarkedPD(ctx context.Context, s *phase.Scope) error {
	target := r.opts.Target.String()
	if err := r.pd.connect(ctx, nil); err != nil {
		return err
	}
	marked, err := r.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", target)
	}
	resolved, err := r.wasResolved(ctx)
	if err == nil && !marked && !resolved {
		resolved, err = r.leftBefore(ctx)
	}
	if err != nil {
		return err
	}
	r.data.found(resolved && !marked) // since they restarted, marked stores may have had no request to lead
	switch {
	case marked:
	case resolved:
		s.Note("the data of %s are at the backup ts already: the end of the restore is what is missing", target)
	default:
		return failure.New(failure.Unready, "resolve", target,
			"PD is not marked recovering: the cluster may serve, and its stores may have elected leaders by "+
				"themselves").
			WithHint("restore into a new cluster: br restore full --type=aws-ebs --prepare marks its PD")
	}
	return nil
}

// leftBefore reports whether an earlier run, killed or failed since, resolved this very cluster's data and removed PD's
// mark. The resolver's progress is removed before such a run ends: then only its journal shows that. In the data phase
// each try is a run of its own, as a recreated Job does not know of the previous one.
func (r *run) leftBefore(ctx context.Context) (bool, error) {
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return false, failure.Annotate(err, "read cluster id", r.opts.Target.String())
	}
	// none is older than the backup
	all, err := runs.Resolves(ctx, r.Store, r.opts.Target, r.opts.Backup, r.backup.CreatedAt)
	if err != nil {
		return false, err
	}
	last := slices.IndexFunc(all, func(other runs.Run) bool { // the newest is the first
		left := journal.ReadFacts(other.History.Records).Resolve
		return other.ID != r.opts.Run && left.HasLeft(id)
	})
	return last >= 0 && all[last].State != runs.Done, nil
}

// lockMarked acquires the cluster's lock and checks the cluster again: the lock's previous holder may have continued
// meanwhile.
func (r *run) lockMarked(ctx context.Context, s *phase.Scope) error {
	if err := r.runner.Lock(ctx, s); err != nil {
		return err
	}
	return r.findMarkedPD(ctx, s)
}

// unmarkRecovering records the cluster and removes PD's mark: the stores leave recovery mode when they restart.
func (r *run) unmarkRecovering(ctx context.Context, s *phase.Scope) error {
	if r.runner.Fence().Confirm(ctx) != nil {
		return failure.New(failure.Conflict, "unmark recovering", r.opts.Target.String(), "another run has it").
			WithHint("see how that run ended: this one has nothing more to do")
	}
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", r.opts.Target.String())
	}
	if err := s.Intent(ctx, journal.IntentLeaveRecovery, journal.LeftRecovery{ClusterID: id}); err != nil {
		return err
	}
	return r.pd.unmark(ctx)
}
