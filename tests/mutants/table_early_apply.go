package mutants

// earlyApplyGuards are those of what keeps replicas from being ahead of their logs, and of the proof that none was.
func earlyApplyGuards() []Mutant {
	const notAhead = "no replica of a backup that says so has data ahead of its raft log"
	const replicas, each, setting, off = "pkg/earlyapply/replicas.go", "TestUnproven_EachReason", "pkg/earlyapply/setting.go", "pkg/backup/early_apply.go"
	return []Mutant{
		in("pkg/manifest/early_apply.go", "a backup that says nothing of early apply rules it out", notAhead,
			"return m.EarlyApply != nil && (", "return m.EarlyApply == nil || (", "TestEarlyApplyRuledOut_OnlyByWhatTheBackupProved"),
		in(replicas, "a replica that was ahead is proven", notAhead, "return was.read && was.level && now.read", "return was.read && now.read", each),
		in(replicas, "a region is proven of which a replica was not read before", notAhead, "return was.read && was.level", "return was.level", each),
		in(replicas, "a region is proven of which a replica is not read after", notAhead, "was.level && now.read && was.confVer", "was.level && was.confVer", each),
		in(replicas, "a replica may have come to lead", notAhead, " && was.terms == now.terms", "", each),
		in(replicas, "a region may have been split", notAhead, " && was.version == now.version", "", each),
		in(replicas, "a replica may have moved", notAhead, "was.confVer == now.confVer && ", "", each),
		in(replicas, "a store may have been restarted", notAhead, "at.IsZero() || !still || !at.Equal(r.started[id])", "!still", each),
		in(setting, "a store is taken for off that did not do it", notAhead, "	case got.Known && got.Limit == limit:", "	case got.Known:", "TestTurnOff_JudgesByWhatTheStoreSays"),
		in(setting, "a store that cannot be read has no early apply", notAhead, "len(s.On)+len(s.Off)+len(s.Failed) == 0", "len(s.On)+len(s.Off) == 0",
			"TestSurvey_NotApplicable_OnlyWhereEveryStoreSaysSo"),
		in(setting, "what somebody else has set is put back", othersStay, "if err != nil || !got.Known || got.Limit != 0 {", "if err != nil || !got.Known {", "TestPutBack_OnlyWhatIsStillOff"),
		in("pkg/earlyapply/adopt.go", "the gauge is believed before a tick", notAhead, "	if wait.For(ctx, settle) != nil {", "	if ctx.Err() != nil {",
			"TestAwaitAdopted_FirstAnswerOfNone_IsNotBelievedBeforeATick"),
		in(off, "a store that cannot be set passes although that is required", notAhead, "if err == nil || r.opts.EarlyApply == RequireNoEarlyApply {", "if err == nil {",
			"TestRun_EarlyApply_StoreThatCannotBeSet"),
		in("pkg/backup/early_apply_back.go", "early apply that stays off is not said by the exit code", releasedOrSaid, "Kind: failure.Held, Err: err,", "Kind: failure.Limited, Err: err,",
			"TestRelease_EarlyApplyOfADeadRun_IsPutBack"),
		in("pkg/backup/pause.go", "a pause that requires it holds a cluster that applies early", noneAhead,
			"		if policy == RequireNoEarlyApply {", "		if false {", "TestPause_EarlyApply_IsDoneAsAskedFor"),
	}
}
