package mutants

// earlyApplyGuards are those of what keeps replicas from being ahead of their logs, and of the proof that none was.
func earlyApplyGuards() []Mutant {
	const notAhead = "a backup that rules early apply out has no data ahead of a raft log"
	const replicas, each, setting, off = "pkg/earlyapply/replicas.go", "TestUnproven_EachReason", "pkg/earlyapply/setting.go", "pkg/backup/early_apply.go"
	const record, pause = "pkg/earlyapply/record.go", "pkg/backup/pause_early_apply.go"
	return []Mutant{
		in("pkg/manifest/early_apply.go", "a backup without a record of early apply rules it out", notAhead,
			"return m.EarlyApply != nil &&\n\t\t(", "return m.EarlyApply == nil ||\n\t\t(", "TestEarlyApplyRuledOut_OnlyByWhatTheBackupProved"),
		in(replicas, "a replica that was ahead is proven", notAhead, "return was.read && was.level && now.read", "return was.read && now.read", each),
		in(replicas, "a region is proven of which a replica was not read before", notAhead, "return was.read && was.level", "return was.level", each),
		in(replicas, "a region is proven of which a replica is not read after", notAhead, "was.level && now.read && was.confVer", "was.level && was.confVer", each),
		in(replicas, "a replica may have come to lead", notAhead, " &&\n\t\twas.terms == now.terms", "", each),
		in(replicas, "a region may have been split", notAhead, " && was.version == now.version", "", each),
		in(replicas, "a replica may have moved", notAhead, "was.confVer == now.confVer && ", "", each),
		in(replicas, "a store may have been restarted", notAhead, "at.IsZero() || !still || !at.Equal(r.started[id])", "at.IsZero() || !still", each),
		in(setting, "a store is taken for off that did not do it", notAhead, "	case got.Known && got.Limit == limit:", "	case got.Known:", "TestTurnOff_Outcome_IsReadFromTheStore"),
		in(setting, "a store that cannot be read has no early apply", notAhead, "len(s.On)+len(s.Off)+len(s.Failed) == 0", "len(s.On)+len(s.Off) == 0",
			"TestSurvey_NotApplicable_OnlyIfEveryStoreLacksIt"),
		in(setting, "what another tool has set is put back", othersStay, "if err != nil || !got.Known || got.Limit != 0 {", "if err != nil || !got.Known {", "TestPutBack_OnlyWhatIsStillOff"),
		in("pkg/earlyapply/adopt.go", "the gauge is believed before a tick", notAhead, "	if wait.For(ctx, adoptTime) != nil {", "	if ctx.Err() != nil {",
			"TestAwaitAdopted_FirstAnswerOfNone_IsNotBelievedBeforeATick"),
		in(off, "a store that cannot be set passes although that is required", notAhead, "if err == nil || e.opts.EarlyApply == RequireNoEarlyApply {", "if err == nil {",
			"TestRun_EarlyApply_StoreThatCannotBeSet"),
		in("pkg/backup/early_apply_back.go", "early apply that stays off is not reported by the exit code", releasedOrReported, "Kind: failure.Held, Err: err,", "Kind: failure.Limited, Err: err,",
			"TestRelease_EarlyApplyOfADeadRun_IsPutBack"),
		in(pause, "a pause that requires it holds a cluster that applies early", noneAhead,
			"		if o.EarlyApply == RequireNoEarlyApply {", "		if false {", "TestPause_EarlyApply_IsDoneAsAskedFor"),
		in(record, "a store that was restarted is set to what an earlier process of it had", othersStay, "!s.StartedAt.Equal(r.StartedAt)", "false",
			"TestRecord_StoresThatWereRestartedOrAreGone_AreNotOfIt"),
		in(record, "a store of unknown start is removed from the record", releasedOrReported, "if s.StartedAt.IsZero() || r.StartedAt.IsZero() {", "if false {",
			"TestRecord_StartMissingInPD_IsTakenForTheSame"),
		in(off, "a store that was restarted while it was asked is on record as its older process", releasedOrReported, "			stores = now\n", "			_ = now\n",
			"TestPause_StoresRestartWhileTheyAreAsked_RecordIsOfTheirNewProcesses"),
		in(record, "what another process has written down in between is lost", releasedOrReported, "!failure.Is(err, failure.Conflict) && ", "",
			"TestRecord_ChangedInBetween_KeepsBothChanges"),
		in("pkg/pd/note.go", "a change of PD's record that was refused is taken for done", releasedOrReported, "if !answer.Succeeded {", "if false {", "TestContract_StandIn_Holds"),
		in(off, "what a pause turns off is written down nowhere", releasedOrReported, "err == nil && len(survey.On) > 0 {", "err == nil && false {",
			"TestRelease_EarlyApplyOfAKilledPause_IsPutBack"),
		in(off, "a run leaves off what a dead one left off", releasedOrReported, "slices.Contains(survey.Off, l.Store) && !", "false && !",
			"TestRun_EarlyApplyLeftOffByAKilledPause_IsPutBackAtItsEnd"),
		in("pkg/backup/release_command.go", "hold status does not name the pod that left early apply off", releasedOrReported, "			e.Holder = &holder\n", "			_ = holder\n",
			"TestRelease_EarlyApplyOfAKilledPause_IsPutBack"),
		in("pkg/backup/release_command.go", "a release that could not read PD's record ends well", releasedOrReported,
			"	return done, errors.Join(err, left.Unread)\n", "	return done, err\n",
			"TestRelease_RecordCannotBeRead_AllElseIsReleased"),
		in(record, "a backup whose limits are back reports a held cluster, for a record that another version wrote", releasedOrReported,
			"if failure.Is(err, failure.Corrupt) {", "if false {",
			"TestRecord_Unreadable_IsCorruptAndKept"),
		in("pkg/backup/release_command.go", "early apply of a pause that lives is turned on under it", othersStay, " && (all || !holds) {", " && (all || !holds || true) {",
			"TestRelease_EarlyApplyOfALivePause_StaysOff"),
	}
}

// publishedGuards are those of the proof that a pause begins and the backup under it ends.
func publishedGuards() []Mutant {
	const notAhead = "a backup that rules early apply out has no data ahead of a raft log"
	const published, other, proof = "pkg/earlyapply/published.go", "pkg/backup/early_apply_other.go", "pkg/backup/early_apply_proof.go"
	const pause, ofAPart = "pkg/backup/pause_early_apply.go", "TestBackup_UnderAPause_OfAPart_ProvesNothingOfTheOtherStores"
	const left, unread = "TestPublish_RegionThatIsAheadOrUnread_IsUnproven", "TestBackup_UnderAPauseThatReadNothing_IsUnproven"
	const next, hidden = "TestPause_KilledReading_IsRemovedByTheNext", "TestBackup_UnderAPause_StoreThatThePauseCouldNotRead_IsUnproven"
	return []Mutant{
		in(published, "a replica that was ahead is published as level", notAhead, "if !g.read || !g.level {", "if !g.read {", left),
		in(published, "a replica that was not read is published as level", notAhead, "if !g.read || !g.level {", "if !g.level {", left),
		in(published, "what is published is taken although it is not whole", notAhead,
			"if h.digest(body) != h.SHA256 {", "if false {", "TestPublished_NotWhole_IsNotTaken"),
		in(published, "what another version has published is read as this one's", notAhead,
			"if h.Version != publishVersion {", "if false {", "TestPublished_OtherVersion_IsNamed"),
		in(published, "a killed pause leaves without bounds", undoneInOrder,
			"if len(body) > maxParts*partSize {", "if false {", "TestPublish_TooManyRegions_WritesNothing"),
		in(published, "a heading stands over the parts of another run", notAhead,
			"if err := putNote(ctx, n, headingName, nil); err != nil {", "if err := error(nil); err != nil {",
			"TestPublish_HeadingIsWrittenLastAndRemovedFirst"),
		in(published, "parts are left behind that no removal finds", undoneInOrder, "for i := parts - 1; i >= 0; i-- {", "for i := range parts {",
			"TestUnpublish_RemovesPartsFromTheLastOn"),
		in(published, "a pause that ends removes what the next one has published", othersStay, " == nil && h.Run != run {", " == nil && false {",
			"TestUnpublish_OfARun_LeavesAnotherRuns"),
		in(other, "what a dead pause has read proves a cut under another hold", notAhead, "	case p.run != holder:", "	case false:", unread),
		in(other, "a backup that has to be proven is cut where nothing can be", notAhead,
			"	if e.opts.EarlyApply == RequireNoEarlyApply {\n		return &failure.Error{", "	if false {\n		return &failure.Error{", unread),
		in(other, "a part that has to be proven is cut where that is others' to do", notAhead,
			"	case e.opts.EarlyApply == RequireNoEarlyApply && len(", "	case false && len(", ofAPart),
		in(proof, "a part rules out what other processes cut", notAhead, ", elsewhere(e.before.Stores(), of))", ")", ofAPart),
		in(proof, "a store is proven whose limit is on again", notAhead, "		bad = append(bad, on.Store)\n", "		_ = on\n",
			"TestBackup_UnderAPause_LimitIsOnAgain_IsUnproven"),
		in(proof, "a store is proven that was not asked before the cut", notAhead, "if !e.before.Asked(st.ID) {", "if false {", hidden),
		in(pause, "a pause publishes a store as off that it could not read", notAhead,
			"publish(ctx, deps, o, e.able())", "publish(ctx, deps, o, stores)", hidden),
		in(pause, "a pause reads before leaders go by limits that are off already", notAhead,
			"	if !e.absent {\n		waiting", "	if len(survey.On) > 0 {\n		waiting", "TestPause_LimitsAreOffAlready_LeadersAreAsked"),
		in("pkg/backup/pause.go", "a pause leaves what it has published in PD", undoneInOrder,
			"	unpublish(ctx, deps, o)\n", "", "TestBackup_UnderAPause_IsProven"),
		in("pkg/backup/early_apply.go", "a backup leaves what a killed pause has published", undoneInOrder,
			`if err := earlyapply.Unpublish(ctx, e.pd, "");`, "if err := error(nil);", next),
		in("pkg/backup/release_command.go", "a release leaves what a killed pause has published", undoneInOrder,
			`errors.Join(err, earlyapply.Unpublish(ctx, p, ""))`, "errors.Join(err)", next),
	}
}
