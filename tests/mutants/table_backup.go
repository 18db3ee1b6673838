package mutants

func backupGuards() []Mutant {
	return []Mutant{
		in("pkg/backup/hold.go", "a set is kept although the hold was lost", provenHold,
			"	case proof != nil:\n		return proof\n	case lost != nil:\n		return lost\n", "",
			"TestRun_LeaseLostDuringTheCut_DeletesTheSet"),
		in("pkg/backup/cut.go", "a set whose answer was lost is not looked up", lostAnswer,
			"if !ebs.MayHaveHappened(err) {", "if true {",
			"TestRun_AnswerOfCreateSnapshotsLost_FindsTheSetAndNeverCutsTwice"),
		in("pkg/backup/cut.go", "a set of another attempt is taken for this one's", provenHold,
			", ebs.TagAttempt: req.Tags[ebs.TagAttempt],\n", ",\n",
			"TestRun_ASetOfAnotherAttempt_IsNeverTakenForThisOnes"),
		in("pkg/backup/start_times.go", "a snapshot that is older than its request is taken", provenHold,
			"	case lowest-highest > startMargin:", "	case false:",
			"TestCheckStarts_OfTheCutAndOfNoOther"),
		in("pkg/backup/sets.go", "a snapshot that EC2 still hides is forgotten", knownAndKept,
			"			if !seen[v] {", "			if false {",
			"TestRun_CancelledDuringTheCut_DeletesWhatAppearsLater"),
		in("pkg/backup/delete_snapshots.go", "snapshots are deleted while a seal may still arrive", sealedIsWhole,
			"	if err := r.bury(ctx); err != nil {\n		return err\n	}\n", "",
			"TestRun_SealArrivesLate_IsBuriedBeforeTheFirstSnapshotGoes|TestRun_SealedAndThenFailed_KeepsItsSnapshots"),
		in("pkg/backup/record.go", "the replicas are the most voters of a region", exactlyOnce,
			"if voters == 0 || n < voters {", "if n > voters {",
			"TestRegionFacts_ReplicasAreTheFewestVotersOfARegion"),
	}
}

func phaseGuards() []Mutant {
	return []Mutant{
		in("pkg/phase/scope.go", "an effect is made before its intent is durable", journalledFirst,
			"	return s.writer.flush(ctx)", "	return nil",
			"TestIntent_WaitsForTheJournal|TestIntent_JournalRefuses_TheEffectIsNotMade"),
		in("pkg/phase/engine.go", "a step begins before the journal says so", journalledFirst,
			"if !step.NoWait && !step.ReadOnly {", "if false {",
			"TestRun_BeginCannotBeJournalled_StepDoesNotStart"),
		in("pkg/phase/engine.go", "a run resumes a journal that it must not", oneRun,
			"if e.cfg.Fresh && len(records) > 0 {", "if false {",
			"TestRun_FreshRunWithUsedID_IsAConflictAndDoesNothing"),
		in("pkg/phase/engine.go", "what a later step ended is undone", undoneInOrder,
			"		delete(e.began, ended)", "		_ = ended",
			"TestRun_StepEndsAnother_ThatOneIsNotUndone"),
		in("pkg/phase/undo.go", "what a live cluster feels is undone last", undoneInOrder,
			"[]bool{true, false}", "[]bool{false, true}",
			"TestRun_LaterStepFails_UndoesInReverseWithUndoFirstBeforeAll"),
		in("pkg/phase/undo.go", "a cancelled run is not undone", undoneInOrder,
			"e.undoAll(context.WithoutCancel(ctx), steps)", "e.undoAll(ctx, steps)",
			"TestRun_ContextCancelledDuringStep_UndoStillRuns"),
		in("pkg/phase/retry_step.go", "an error that retrying does not change is retried", errorTable,
			"if !step.Retry || !failure.Transient(err) {", "if !step.Retry {",
			"TestRun_StepWithRetry_IsRetriedUntilItsDeadline"),
	}
}
