package restore

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// The phases that a user sees timed, by the names of the published tables.
const (
	phaseCluster = "create cluster"
	phaseVolumes = "restore volumes"
	phaseTiKV    = "start TiKV"
	phaseData    = "resolve data"
	phaseTiDB    = "start TiDB"
)

// The phases of our own, only in restores that ask for them.
const (
	phaseFast  = "enable fast restore"
	phaseAfter = "set running profile"
)

// steps is the runbook.
func (t *task) steps() []phase.Step {
	wait := t.opts.Timeout
	steps := []phase.Step{
		{Phase: phaseCluster, Name: "load", Deadline: 5 * time.Minute, Do: t.load, ReadOnly: true},
		{Phase: phaseCluster, Name: "preflight", Deadline: 5 * time.Minute, Do: t.preflight, ReadOnly: true},
		{Phase: phaseCluster, Name: journal.StepLock, Deadline: time.Minute, Do: t.takeLock, Undo: t.dropLock},
		{Phase: phaseCluster, Name: journal.StepCreateCluster, Deadline: 5 * time.Minute, Do: t.createCluster, Undo: t.deleteCluster, UndoFirst: true, Retry: true},
		{Phase: phaseCluster, Name: "await-pd", Deadline: wait, Do: t.awaitPD},
		{Phase: phaseCluster, Name: "mark-recovering", Deadline: 5 * time.Minute, Do: t.markRecovering, Retry: true},
	}
	steps = append(steps, t.volumeSteps()...)
	steps = append(steps, []phase.Step{
		{Phase: phaseTiKV, Name: "start-tikv", Deadline: 5 * time.Minute, Do: t.startTiKV, Retry: true},
		{Phase: phaseTiKV, Name: "await-stores", Deadline: wait, Do: t.awaitStores},
		{Phase: phaseData, Name: "check-tasks", Deadline: 5 * time.Minute, Do: t.checkTasks, Retry: true},
	}...)
	steps = append(steps, t.resolver.Steps(phaseData)...)
	steps = append(steps,
		phase.Step{Phase: phaseTiDB, Name: "check-tasks-again", Deadline: 5 * time.Minute, Do: t.checkTasksAgain, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "leave-recovery", Deadline: 10 * time.Minute, Do: t.leaveRecovery, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "await-restart", Deadline: wait, Do: t.awaitRestart},
		// From here on the data serve: what fails later must not delete them.
		phase.Step{Phase: phaseTiDB, Name: journal.StepAwaitLeaders, Deadline: wait, Do: t.awaitLeaders, Ends: []string{journal.StepCreateCluster, journal.StepCreateVolumes, journal.StepBindVolumes, journal.StepRecover}},
		phase.Step{Phase: phaseTiDB, Name: "await-tidb", Deadline: wait, Do: t.awaitTiDB},
		phase.Step{Phase: phaseTiDB, Name: "thaw", Deadline: 5 * time.Minute, Do: t.resolver.Thaw, Ends: []string{journal.StepFreezeScheduling}, Retry: true},
	)
	last := phaseTiDB
	if t.opts.After != (cluster.VolumeSpec{}) {
		last = phaseAfter
		steps = append(steps, phase.Step{Phase: last, Name: "modify-volumes", Deadline: modifyDeadline + time.Minute, Do: t.modifyVolumes})
	}
	if t.opts.FastRestore {
		steps = append(steps, phase.Step{Phase: last, Name: "end-fast-restore-again", Deadline: 5 * time.Minute, Do: t.lastFast})
	}
	return append(steps, phase.Step{Phase: last, Name: "unlock", Deadline: time.Minute, Do: t.unlock, Ends: []string{journal.StepLock}})
}

// volumeSteps makes the volumes and binds them. With fast snapshot restore, that ends as soon as all volumes
// are there, however the run goes on.
func (t *task) volumeSteps() []phase.Step {
	wait := t.opts.Timeout
	making := wait
	if t.opts.InitializationMiB > 0 {
		making = wavesDeadline
	}
	steps := []phase.Step{
		{
			Phase: phaseVolumes, Name: journal.StepCreateVolumes, Deadline: making, Do: t.createVolumes,
			Undo: t.deleteVolumes, UndoDeadline: wait, State: &t.created,
		},
		{Phase: phaseVolumes, Name: "await-volumes", Deadline: wait, Do: t.awaitVolumes},
	}
	if t.opts.FastRestore {
		steps = append([]phase.Step{{
			Phase: phaseFast, Name: "fast-restore", Deadline: fastDeadline, Do: t.enableFast,
			Undo: t.disableFast, UndoDeadline: 10 * time.Minute,
		}}, steps...)
		steps = append(steps, phase.Step{Phase: phaseVolumes, Name: "end-fast-restore", Deadline: 10 * time.Minute, Do: t.endFast})
	}
	return append(steps, phase.Step{
		Phase: phaseVolumes, Name: journal.StepBindVolumes, Deadline: 10 * time.Minute, Do: t.bindVolumes, Undo: t.unbindVolumes, Retry: true,
	})
}
