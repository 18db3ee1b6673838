package restore

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// The phases in reports: the published tables' names.
const (
	phaseCluster = "create cluster"
	phaseVolumes = "restore volumes"
	phaseTiKV    = "start TiKV"
	phaseData    = "resolve data"
	phaseTiDB    = "start TiDB"
)

// Our own phases, only in restores with these options.
const (
	phaseSnapshots = "write snapshots"
	phaseFill      = "fill volumes"
	phaseFast      = "enable fast restore"
	phaseAfter     = "set running profile"
)

// Outline lists the steps of a restore, with all options that add one, and those of a resolve.
func Outline() (ofRestore, ofResolve []phase.Outline) {
	r := newRun(Deps{}, Options{FastRestore: true, After: cluster.VolumeSpec{Type: "gp3"}}, byRun)
	return phase.Outlines(r.restoreSteps()), phase.Outlines(r.resolveSteps())
}

// OutlineFromArchive lists the steps of a restore from an archive, with all options that add one.
func OutlineFromArchive() []phase.Outline {
	deps := Deps{Archive: &fromarchive.Source{}}
	r := newRun(deps, Options{FastRestore: true, After: cluster.VolumeSpec{Type: "gp3"}}, byRun)
	return phase.Outlines(r.restoreSteps())
}

// OutlineToVolumes lists the steps of a restore from an archive straight to volumes.
func OutlineToVolumes() []phase.Outline {
	r := newRun(Deps{Archive: &fromarchive.Source{}, Fill: &filled.Way{}}, Options{}, byRun)
	return phase.Outlines(r.restoreSteps())
}

// OutlineHalves lists the steps of Prepare and ResolveData, with all options that add one.
func OutlineHalves() (ofVolumes, ofData []phase.Outline) {
	r := newRun(Deps{}, Options{FastRestore: true}, byBR)
	return phase.Outlines(r.prepareSteps()), phase.Outlines(r.dataSteps())
}

// Steps that are predecessors of others.
const (
	stepAwaitVolumes = "await-volumes"
	stepStartTiKV    = "start-tikv" // once it begins, pods may use the volumes
	stepRaiseTS      = "raise-ts"
	stepCheckTasks   = "check-tasks"
	stepCollect      = "collect"
	stepPlan         = "plan"
)

// restoreSteps is the runbook of a restore.
func (r *run) restoreSteps() []phase.Step {
	return slices.Concat(
		repeated(r.checkSteps()),
		[]phase.Step{r.runner.LockStep(phaseCluster, r.lockTarget)},
		r.snapshotSteps(),
		r.fillSteps(),
		r.clusterSteps(),
		r.volumeSteps(),
		r.tikvSteps(),
		mayBeLate(
			repeated(
				r.resolver.Steps(phaseData, r.asStoresCome(stepStartTiKV)),
				// Once there are leaders the cluster serves: later failures must not delete it.
				r.servingSteps(r.thaw, journal.StepCreateCluster, r.madeVolumes(), journal.StepBindVolumes),
			),
			r.profileSteps(),
		),
		[]phase.Step{r.runner.UnlockStep(r.lastPhase())},
	)
}

// mayBeLate lets steps begin before their journal record is written. Once TiKV has started, the cluster and the
// resolver's progress show what a run does: without these records a killed run can be resumed, and gc finds what is in
// use.
func mayBeLate(groups ...[]phase.Step) []phase.Step {
	steps := slices.Concat(groups...)
	for i := range steps {
		steps[i].Record.MayBeLate = true
	}
	return steps
}

// checkSteps change nothing.
func (r *run) checkSteps() []phase.Step {
	return []phase.Step{
		{
			Phase: phaseCluster, Name: "load", Deadline: 5 * time.Minute, Do: r.load, ReadOnly: true, Retry: true,
			Patience: preflight.Patience,
		},
		{
			Phase: phaseCluster, Name: "preflight", Deadline: 5 * time.Minute, Do: r.preflight, ReadOnly: true,
			Retry: true, Patience: preflight.Patience,
		},
	}
}

func (r *run) clusterSteps() []phase.Step {
	return []phase.Step{
		{
			Phase: phaseCluster, Name: journal.StepCreateCluster, Deadline: 5 * time.Minute, Do: r.createCluster,
			Undo: phase.Undo{Do: r.deleteCluster, First: true, Kept: r.target.kept()}, Retry: true,
			Resume: phase.Resumption{State: &r.target.given},
		},
		{
			Phase: phaseCluster, Name: "await-pd", Deadline: r.opts.Timeout, Do: r.awaitPD,
			Resume: phase.Resumption{Repeat: true},
		},
		{Phase: phaseCluster, Name: "mark-recovering", Deadline: 5 * time.Minute, Do: r.markRecovering, Retry: true},
	}
}

// volumeSteps make the volumes while the cluster comes up, and bind them as soon as the cluster exists.
func (r *run) volumeSteps() []phase.Step {
	var steps []phase.Step
	made, deadline := journal.StepFillVolumes, exchangeDeadline
	if r.Fill == nil {
		steps = r.makeVolumesSteps()
		made, deadline = steps[len(steps)-1].Name, 10*time.Minute
	}
	return append(steps, phase.Step{
		Phase: phaseVolumes, Name: journal.StepBindVolumes,
		Order:    phase.Order{After: []string{made, journal.StepCreateCluster}},
		Deadline: deadline, Do: r.bindVolumes, Undo: phase.Undo{Do: r.unbindVolumes}, Retry: true,
		ReadsLock: true,
	})
}

// makeVolumesSteps make the volumes, one step after another, without PD. Fast snapshot restore ends as soon as all
// volumes are available, however the run continues.
func (r *run) makeVolumesSteps() []phase.Step {
	wait := r.opts.Timeout
	making := wait
	if r.opts.InitializationMiB > 0 {
		making = volumes.WavesDeadline
	}
	var begin, end []phase.Step
	if r.opts.FastRestore {
		begin = []phase.Step{{
			Phase: phaseFast, Name: "fast-restore", Deadline: volumes.FastDeadline, Do: r.making.enableFast,
			Undo: phase.Undo{Do: r.making.disableFast, Deadline: 10 * time.Minute, Kept: volumes.KeptFast},
		}}
		end = []phase.Step{{
			Phase: phaseVolumes, Name: "end-fast-restore", Deadline: 10 * time.Minute, Do: r.making.endFast,
		}}
	}
	steps := slices.Concat(begin, []phase.Step{
		{
			Phase: phaseVolumes, Name: journal.StepCreateVolumes, Deadline: making, Do: r.making.createVolumes,
			ReadsLock: true,
			// For so long EC2 may hide the result of an unanswered request, whatever the user's limit.
			Undo:   phase.Undo{Do: r.deleteVolumes, Deadline: wait + r.opts.Visibility, Kept: r.making.Kept()},
			Resume: phase.Resumption{State: &r.making.created, Adopted: r.making.adoptVolumes},
		},
		{Phase: phaseVolumes, Name: stepAwaitVolumes, Deadline: wait, Do: r.making.awaitVolumes},
	}, end)
	before := r.beforeVolumes()
	for i := range steps {
		steps[i].Order.After, before = []string{before}, steps[i].Name
	}
	return steps
}

func (r *run) tikvSteps() []phase.Step {
	return []phase.Step{
		{
			Phase: phaseTiKV, Name: stepStartTiKV, Deadline: 5 * time.Minute, Do: r.startTiKV, Retry: true,
			ReadsLock: true,
			Resume:    phase.Resumption{Adopted: r.target.adoptStart},
		},
		r.awaitStoresStep(phaseTiKV),
		r.checkTasksStep(),
	}
}

func (r *run) awaitStoresStep(in string) phase.Step {
	return phase.Step{
		Phase: in, Name: "await-stores", Deadline: r.opts.Timeout, Do: r.awaitStores,
		Resume: phase.Resumption{Repeat: true},
	}
}

func (r *run) checkTasksStep() phase.Step {
	return phase.Step{
		Phase: phaseData, Name: stepCheckTasks, Deadline: 5 * time.Minute, Do: r.checkTasks, Retry: true,
		Resume: phase.Resumption{Repeat: true},
	}
}

// servingSteps lead from resolved stores to a serving cluster. Once it serves, what the steps named in ends and the
// resolver made is kept. Replicas are rebuilt before TiDB starts; without any, TiDB starts as soon as recovery mode is
// left. TiDB comes up while raft elects leaders; if it does not come up that is no reason to delete them, so the
// leaders are awaited regardless. PD's state is restored before TiDB, which reads it, starts, and again once PD's
// limits are released, which cannot be set before.
func (r *run) servingSteps(thaw func(context.Context, *phase.Scope) error, ends ...string) []phase.Step {
	wait := r.opts.Timeout
	return slices.Concat([]phase.Step{
		{Phase: phaseTiDB, Name: "check-tasks-again", Deadline: 5 * time.Minute, Do: r.checkTasksAgain, Retry: true},
	}, r.pdStateSteps("put-pd-state", r.putPDState), []phase.Step{
		{Phase: phaseTiDB, Name: "leave-recovery", Deadline: 10 * time.Minute, Do: r.leaveRecovery, Retry: true},
		{Phase: phaseTiDB, Name: "await-restart", Deadline: wait, Do: r.awaitRestart},
		{Phase: phaseTiDB, Name: journal.StepRebuild, Deadline: rebuildDeadline, Do: r.rebuildReplicas},
		{
			Phase: phaseTiDB, Name: journal.StepAwaitLeaders, Deadline: wait, Do: r.awaitLeaders,
			Order: phase.Order{Decides: true, Ends: append(ends, journal.StepRecover)},
		},
		{
			Phase: phaseTiDB, Name: "start-tidb", Order: phase.Order{After: []string{journal.StepRebuild}},
			Deadline: 5 * time.Minute, Do: r.target.startTiDB, Retry: true,
		},
		{
			Phase: phaseTiDB, Name: "await-tidb", Order: phase.Order{After: []string{"start-tidb"}}, Deadline: wait,
			Do: r.awaitTiDB,
		},
		{
			Phase: phaseTiDB, Name: "thaw", Deadline: 5 * time.Minute, Do: thaw,
			Order: phase.Order{Ends: []string{journal.StepFreezeScheduling}}, Retry: true,
		},
	}, r.pdStateSteps("check-pd-state", r.checkPDState))
}

// profileSteps run once the cluster serves, if requested.
func (r *run) profileSteps() []phase.Step {
	var steps []phase.Step
	if r.opts.After != (cluster.VolumeSpec{}) {
		steps = append(steps, phase.Step{
			Phase: phaseAfter, Name: "modify-volumes", Deadline: volumes.ModifyDeadline + time.Minute,
			Do: r.modifyVolumes, ReadsLock: true,
		})
	}
	return slices.Concat(steps, r.lastFastSteps(r.lastPhase()), r.deleteSnapshotsSteps())
}

// lastFastSteps ends fast snapshot restore again, where it is used.
func (r *run) lastFastSteps(in string) []phase.Step {
	if !r.opts.FastRestore {
		return nil
	}
	return []phase.Step{{Phase: in, Name: "end-fast-restore-again", Deadline: 5 * time.Minute, Do: r.lastFast}}
}

// lastPhase returns the phase in which the run ends.
func (r *run) lastPhase() string {
	if r.opts.After != (cluster.VolumeSpec{}) {
		return phaseAfter
	}
	return phaseTiDB
}

// lockTarget acquires the target's lock; if the restore waited for another run it checks again what that may have
// changed.
func (r *run) lockTarget(ctx context.Context, s *phase.Scope) error {
	if err := r.runner.Lock(ctx, s); err != nil || !r.runner.Waited() || r.runner.Resumed() {
		return err
	}
	return r.target.check(ctx, r.backup.Manifest)
}
