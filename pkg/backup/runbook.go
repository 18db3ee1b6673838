package backup

import (
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runner"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The phases in reports: the published tables' names, and one of our own.
const (
	phaseTask       = "create task"
	phaseScheduling = "pause scheduling"
	phaseGC         = "pause GC"
	phaseTS         = "get backup ts"
	phaseSnapshots  = "volume snapshots"
	phaseHoldAgain  = "hold again" // between two attempts at the hold
	phaseSeal       = "seal"
)

// Outline lists the steps of a backup with all options that add one.
func Outline() []phase.Outline {
	r := newRun(Deps{EarlyApply: (*tikv.Client)(nil)}, Options{ConsistentNow: true, OnImport: preflight.WaitOnImport})
	return phase.Outlines(r.steps())
}

// stepClaim reserves the backup's id, and its prefix if that is TiDB Operator's.
const stepClaim = "claim"

// Why steps do not check the lock.
const (
	holds    = "a cluster that is held waits for nothing: each call asks whether the lock can still be this run's"
	releases = "a live cluster is released, whoever has the lock"
)

// steps is the runbook.
func (r *run) steps() []phase.Step {
	steps := r.checks()
	// The hold's own watchdog ends it after MaxHold; the steps' deadlines are later.
	holding, releasing := r.opts.MaxHold+watchdogMargin, r.opts.MaxHold+r.opts.Lease
	steps = append(steps, []phase.Step{
		r.runner.LockStep(phaseTask, r.runner.Lock),
		{
			Phase: phaseTask, Name: stepClaim, Deadline: time.Minute, Do: r.claim,
			Undo: phase.Undo{Do: r.records.undoClaim()}, Resume: phase.Resumption{Repeat: true},
		},
	}...)
	steps = append(steps, r.holdSteps(holding, releasing)...)
	return append(steps, []phase.Step{
		{Phase: phaseTS, Name: journal.StepBackupTS, Deadline: holding, Do: r.readTS, Unfenced: holds},

		{
			Phase: phaseSnapshots, Name: journal.StepCut, Deadline: holding, Do: r.cut,
			Undo: phase.Undo{Do: r.deleteSnapshots, Deadline: time.Hour, Kept: r.remover().kept()}, Unfenced: holds,
		},
		{
			Phase: phaseSnapshots, Name: journal.StepRelease, Deadline: releasing, Do: r.release,
			Undo:  phase.Undo{Do: r.releaseLate, Deadline: releasing, First: true, Unfenced: releases},
			Order: phase.Order{Ends: r.endedByRelease()}, Record: phase.Recording{NoWait: true}, Unfenced: releases,
			Resume: phase.Resumption{State: &r.at.proof, Adopted: r.adoptProof},
		},
		{
			Phase: phaseSnapshots, Name: journal.StepRecord, Deadline: runner.LockTTL, Do: r.record,
			Undo: phase.Undo{Do: r.forget}, Retry: true, Resume: phase.Resumption{Adopted: r.adoptManifest},
		},
		{
			Phase: phaseSnapshots, Name: "wait", Deadline: r.opts.Timeout, Do: r.wait,
			Resume: phase.Resumption{Repeat: true},
		},

		{
			Phase: phaseSeal, Name: journal.StepSeal, Deadline: runner.LockTTL, Do: r.seal, Retry: true,
			Resume: phase.Resumption{Adopted: r.records.adoptSeal},
			Order:  phase.Order{Ends: []string{stepClaim, journal.StepCut, journal.StepRecord}},
		},
		{
			Phase: phaseSeal, Name: journal.StepReleaseAgain, Deadline: releasing, Do: r.releaseAgain,
			Order: phase.Order{Ends: r.endedAtLast()}, Unfenced: releases,
		},
		r.runner.UnlockStep(phaseSeal),
	}...)
}

// holdSteps hold the cluster, or find another process's hold. That is not journalled, as no release of this run may end
// it.
func (r *run) holdSteps(holding, releasing time.Duration) []phase.Step {
	connect := phase.Step{
		Phase: phaseTask, Name: journal.StepConnect, Deadline: time.Minute, Do: r.connect,
		Undo: phase.Undo{Do: r.disconnect, First: true, Unfenced: releases},
	}
	if r.opts.OtherHolds {
		connect.Deadline, connect.Do = holding, r.observe
		return []phase.Step{connect}
	}
	var marking []phase.Step
	if r.marks.wanted() {
		marking = []phase.Step{{
			Phase: phaseTask, Name: journal.StepMarks, Deadline: marksLimit + r.opts.MarksTimeout + time.Minute,
			Do: r.readMarks,
		}}
	}
	once, each := r.early.steps()
	return slices.Concat(once, each, marking, []phase.Step{
		connect,
		{
			Phase: phaseScheduling, Name: journal.StepHold, Deadline: holding, Do: r.pause,
			Undo: phase.Undo{Do: r.endHold, Deadline: releasing, First: true, Unfenced: releases}, Unfenced: holds,
		},
		{Phase: phaseGC, Name: journal.StepHoldGC, Deadline: holding, Do: r.pauseGC, Unfenced: holds},
	})
}

// holdGroup groups everything from the first connection to the release: if the hold breaks, all of it is released, its
// snapshots are deleted, and the cluster is held again, a bounded number of times.
func (r *run) holdGroup() *phase.RetryGroup {
	from := journal.StepConnect
	switch { // right before the hold, so that few regions change in between
	case r.early.preventing():
		from = journal.StepReadReplicas
	case r.marks.wanted():
		from = journal.StepMarks
	}
	return &phase.RetryGroup{
		From: from, To: journal.StepRelease, Attempts: r.opts.HoldAttempts, Worth: worthAnotherHold,
		Phase: phaseHoldAgain, Ready: r.awaitSteady, Deadline: r.opts.SteadyTimeout,
	}
}

// endedAtLast lists the steps whose effects end with the second release.
func (r *run) endedAtLast() []string {
	if r.early.preventing() {
		return []string{journal.StepRelease, journal.StepEarlyApply}
	}
	return []string{journal.StepRelease}
}

func (r *run) endedByRelease() []string {
	if r.opts.OtherHolds {
		return []string{journal.StepConnect}
	}
	return []string{journal.StepConnect, journal.StepHold}
}

// watchdogMargin is how much later than the hold's watchdog a step's deadline is.
const watchdogMargin = 10 * time.Second

// preflightStep is also the only step of a dry run.
func (r *run) preflightStep() phase.Step {
	return phase.Step{
		Phase: phaseTask, Name: "preflight", Deadline: 5 * time.Minute, Do: r.preflight, ReadOnly: true, Retry: true,
		Patience: preflight.Patience,
	}
}

// checks are the steps before anything is changed.
func (r *run) checks() []phase.Step {
	steps := []phase.Step{r.preflightStep(), {
		Phase: phaseTask, Name: "await-pending", Deadline: 2*r.opts.PendingTimeout + time.Minute, Do: r.awaitPending,
		ReadOnly: true,
	}}
	if r.opts.OnImport == preflight.WaitOnImport {
		steps = append(steps, phase.Step{
			Phase: phaseTask, Name: "await-imports", Deadline: r.opts.ImportTimeout + time.Minute,
			Do: r.source.awaitImports, ReadOnly: true,
		})
	}
	if r.opts.ConsistentNow {
		steps = append(steps, phase.Step{
			Phase: phaseTask, Name: "await-resolved-ts", Deadline: r.opts.ConsistentTimeout + time.Minute,
			Do: r.source.awaitTS, ReadOnly: true,
		})
	}
	return steps
}
