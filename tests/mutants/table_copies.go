package mutants

// copyGuards are those by which a copy is made once.
func copyGuards() []Mutant {
	const once = "what a lost answer may have made is looked up, and not made twice"
	const inTurn = "copies are begun as EC2 makes them: one of a volume, and no more than it takes"
	return []Mutant{
		in("pkg/copyplan/plan.go", "two copies of a volume run at a time", inTurn,
			"running[c.ID] || done[c.ID] || busy[c.Volume] {", "running[c.ID] || done[c.ID] {",
			"TestNext_UntilAllAreDone_KeepsTheRules"),
		in("pkg/copyplan/plan.go", "more copies are begun than there are slots for", inTurn,
			"		if free <= 0 {", "		if false {",
			"TestNext_UntilAllAreDone_KeepsTheRules"),
		in("pkg/copyrun/copy.go", "a copy that may have been made is asked for again", once,
			"		case ebs.MayHaveHappened(err):", "		case false:",
			"TestRun_AnswerIsLost_NoCopyIsMadeTwice"),
		in("pkg/copyrun/copy.go", "a copy that a dead process asked for, and EC2 hides, is asked for again", once,
			"for id := range r.earlier.Asked {", "for id := range map[sourceID]bool{} {",
			"TestRun_StoppedAnywhere_ResumedOrCollected"),
		in("pkg/copyrun/copy.go", "a snapshot of another storage is taken for a copy", "whose it is is asked by identity",
			" || s.Tags[ebs.TagStorage] != c.runner.StorageID()", "",
			"TestRun_SnapshotOfAnotherStorage_IsLeftAlone"),
		in("pkg/copyrun/copy.go", "a process that was suspended deletes the copies of a later one", "whose it is is asked by identity",
			"epoch := c.runner.Fence().Epoch()", "epoch := c.runner.Fence().Epoch() + 1000",
			"TestRun_LaterProcessHasTheCopies_Conflict"),
		in("pkg/copyrun/record.go", "copies that are not what was asked for are sealed", "a copy is complete, or no backup",
			"	if wrong == \"\" {", "	if true {",
			"TestRun_ACopyIsNotWhatWasAskedFor_NothingIsSealed"),
		in("pkg/copyrun/preflight.go", "a copy under a key that cannot be used is only refused by EC2", "what cannot succeed is refused before the first change, with what it takes",
			"		if err := key.Refusal(); err != nil {", "		if err := key.Refusal(); err != nil && false {",
			"TestRun_KeyOfTheSource_CheckedBeforeTheFirstChange"),
		in("pkg/copyrun/share.go", "what the user shares is no longer shared after a copy", "what a run did not make it does not undo",
			"if err != nil || slices.Contains(with, r.found.account) {", "if err != nil || slices.Contains(with, r.opts.Tool) {",
			"TestRun_SharedBefore_StaysShared"),
		in("pkg/copyrun/share.go", "a resumed copy cannot read what is no longer shared", "a run that was killed is resumed with what it did",
			"	if !r.earlier.sealed {\n		return r.share", "	if false {\n		return r.share",
			"TestRun_NoLongerSharedMeanwhile_CompleteOrNothing"),
		in("pkg/copyrun/run.go", "a copy that fails begins from scratch the next time", "a run that was killed is resumed with what it did",
			"Keeps: true", "Keeps: false",
			"TestRun_CopyFailsLate_MadeAgainThreeTimes"),
		in("pkg/copyrun/share.go", "a backup can be deleted while it is copied", "what a live run uses is not deleted",
			"	owner.Backup = r.opts.Backup\n", "",
			"TestRun_SourceIsDeletedMeanwhile_Refused"),
		in("pkg/gc/uses.go", "delete ignores the lease of a copy", "what a live run uses is not deleted",
			"if lease.Owner.Backup != x.opts.Backup {", "if lease.Owner.Backup != x.opts.Backup || true {",
			"TestDelete_CopyHasALease_IsRefused"),
		in("pkg/ebs/copies.go", "a copy whose answer was lost is asked for again", once,
			`verb: "copy snapshot", action: ActionCopySnapshot, tagged: true, queue`, `verb: "copy snapshot", action: ActionCopySnapshot, tagged: true, repeatable: true, queue`,
			"TestCopySnapshot_AnswerLost_FoundByTagAndNotRepeated"),
		in("pkg/ebs/copies.go", "a copy does not record its original", once,
			"	tags[TagCopiedFrom] = string(req.Snapshot)", "	delete(tags, TagCopiedFrom)",
			"TestCopySnapshot_AnswerLost_FoundByTagAndNotRepeated"),
		in("pkg/gc/prune.go", "prune deletes the newest copy of a volume", "what makes the next copy full stays unless a user allows it",
			`if why := p.nextFull(e); why != "" {`, `if why := p.nextFull(e); why != "" && false {`,
			"TestPrune_NewestCopyOfAVolume_StaysUnlessAllowed"),
		in("pkg/gc/prune.go", "prune keeps a copy in the archive tier for the next one, which is full anyway", "what makes the next copy full stays unless a user allows it",
			"	p.world.copies.withoutArchived(p.newest, snapshots)\n", "",
			"TestPrune_NewestCopyOfAVolume_StaysUnlessAllowed"),
		in("pkg/gc/prune_copies.go", "a copy that came another way counts as the newest", "what makes the next copy full stays unless a user allows it",
			"lineage{s.Volume, m.CopyOf.Over()}", `lineage{s.Volume, ""}`,
			"TestPrune_NewestCopyOfAVolume_StaysUnlessAllowed"),
		in("pkg/gc/prune_copies.go", "a copy whose snapshots are gone counts as the newest", "what makes the next copy full stays unless a user allows it",
			`		if broken[id] != "" {`, `		if broken[id] != "" && false {`,
			"TestPrune_NewestCopyOfAVolume_StaysUnlessAllowed"),
	}
}

// copyPlanGuards are those by which a plan announces what EC2 then does, and a copy names what it is of.
func copyPlanGuards() []Mutant {
	const asPlanned = "the plan of a copy is what EC2 does"
	const ofWhat = "what a copy is of is in its manifest"
	return []Mutant{
		in("pkg/copyrun/keys.go", "a copy under another key of the same alias is announced as incremental", asPlanned,
			"		return key.ARN", "		return name",
			"TestRun_KeysOfTheCopies_PlannedAsEC2Copies"),
		in("pkg/copyrun/plan.go", "a copy whose key is unknown is announced as incremental", asPlanned,
			"KeyUnknown: !known", "KeyUnknown: !known && false",
			"TestRun_KeysOfTheCopies_PlannedAsEC2Copies"),
		in("pkg/copyrun/before.go", "a copy after one that came another way is announced as incremental", asPlanned,
			"s.Tags[ebs.TagCopiedOver] != over ||", `s.Tags[ebs.TagCopiedOver] == over+"!" ||`,
			"TestRun_CopyOfACopy_NamesTheChainAndIsALineageOfItsOwn"),
		in("pkg/copyrun/before.go", "a copy after a deleted one is announced as incremental", asPlanned,
			`if last != "" && !exists[last] {`, "if false {",
			"TestRun_NewestCopyWasDeleted_NextIsAnnouncedAsFull"),
		in("pkg/copyrun/before.go", "a copy after one of another storage is announced as full", asPlanned,
			"if s.StartedAt.After(at) && ", "if s.StartedAt.Before(at) && ",
			"TestRun_NewerCopyIsOfAnotherStorage_NextIsIncremental"),
		in("pkg/copyrun/copy.go", "a copy whose answer was lost is in no journal", asPlanned,
			"c.accepted(source, c.copies[source].ID) //", "c.expects[source] = c.copies[source].ID //",
			"TestRun_NewestCopyWasDeleted_NextIsAnnouncedAsFull"),
		in("pkg/catalog/origin.go", "what was changed is kept as the signed source of a copy", ofWhat,
			"if of == nil || hex", "if of == nil && hex",
			"TestRun_SourceIsSigned_KeptWithTheCopies").heldBy("pkg/copyrun"),
		in("pkg/copyrun/record.go", "the copy of a copy does not keep what was signed", ofWhat,
			"	if !m.CopyOf.Signed {", "	if false {",
			"TestRun_SourceIsSigned_KeptWithTheCopies"),
		in("pkg/copyrun/record.go", "the copy of a copy does not name what was cut", ofWhat,
			"CopyOf: of.CopyOf,", "CopyOf: nil,",
			"TestRun_CopyOfACopy_NamesTheChainAndIsALineageOfItsOwn"),
	}
}

// archiveTierGuards are those by which a snapshot in the archive tier is not used before it is back.
func archiveTierGuards() []Mutant {
	const early = "what cannot succeed is refused before the first change, with what it takes"
	return []Mutant{
		in("pkg/copyrun/preflight.go", "a copy of an archived snapshot is only refused by EC2", early,
			"		case s.Archived:", "		case false:",
			"TestRun_SourceIsInTheArchiveTier_RefusedWithWhatItTakes"),
		in("pkg/copyrun/before.go", "a copy after an archived one is announced as incremental", "the plan of a copy is what EC2 does",
			"newest, b.Archived = s.StartedAt, s.Archived", "newest, b.Archived = s.StartedAt, false",
			"TestRun_NewestCopyIsInTheArchiveTier_NextIsAnnouncedAsFull"),
		in("pkg/archive/create/prepare.go", "an archived snapshot is only refused by the EBS direct APIs", early,
			"s.State == ebs.SnapshotCompleted && !s.Archived && s.Outpost", "s.State == ebs.SnapshotCompleted && s.Outpost",
			"TestRun_BackupCannotBeArchived_Refused"),
		in("pkg/ebs/convert.go", "a snapshot that is back from the archive tier for some days cannot be restored", early,
			"s.StorageTier == types.StorageTierArchive && until.IsZero()", "s.StorageTier == types.StorageTierArchive",
			"TestSnapshotOf_ArchiveTier"),
		in("pkg/restore/volumes/planner.go", "a restore of an archived snapshot is only refused by EC2", early,
			"	return plan, archived(p.Manifest, state)", "	return plan, nil",
			"TestRestore_SnapshotInTheArchiveTier_IsRefusedInPreflight").heldBy("pkg/restore"),
	}
}

// lockSetGuards are those by which a lock is never weakened, and keeps all of a backup.
func lockSetGuards() []Mutant {
	const extendOnly = "a lock is made stronger or longer, and never the reverse"
	const finalIsTyped = "what no one can undo is done by the backup's name alone"
	return []Mutant{
		in("pkg/ebs/lock_snapshot.go", "a lock that lasts long enough is replaced by a shorter one", extendOnly,
			"	case !stronger && !l.ExpiresAt.Before(until):", "	case !stronger && l.ExpiresAt.Equal(until):",
			"TestLockSnapshot_Governance_OnlyLonger"),
		in("pkg/ebs/lock_snapshot.go", "a stronger lock ends earlier than the one before", extendOnly,
			"	case l.ExpiresAt.After(until):", "	case false:",
			"TestLockSnapshot_Governance_OnlyLonger"),
		in("pkg/ebs/lock_snapshot.go", "a lock in compliance mode is reported as removed", extendOnly,
			`(lock.Snapshot == "" || !lock.Holds()) {`, `(lock.Snapshot == "" || lock.Holds()) {`,
			"TestLockSnapshot_Compliance_CoolsOffThenStays"),
		in("pkg/lockset/lock.go", "a set is locked in part, though one snapshot must not be changed", extendOnly,
			"if err := r.plan(o); err != nil {", "if err := r.plan(o); err != nil && o.DryRun {",
			"TestLock_WhatItRefuses_BeforeTheFirstChange"),
		in("pkg/lockset/lock.go", "locks that no one can remove are made without the backup's name", finalIsTyped,
			"(o.CoolOff == 0 || it.Mode == ebs.LockCompliance)", "o.CoolOff == 0",
			"TestLock_Final_OnlyIfItCannotBeUndone"),
		in("pkg/cli/lock.go", "locks that no one can remove are made whatever name is typed", finalIsTyped,
			"	if given != string(o.Backup) {", "	if false {",
			"TestConfirmFinal_OnlyByTheBackupsName"),
		in("pkg/lockset/set.go", "a set that is locked in part is a success", askedIsDone,
			"	if len(errs) == 0 {", "	if true {",
			"TestLock_FailsInTheMiddle_IsFinishedByTheSameCall"),
		in("pkg/lockset/lock.go", "a backup that was deleted meanwhile is reported as locked", askedIsDone,
			"	if err == nil && now.Run == m.Run {", "	if true || err == nil && now.Run == m.Run {",
			"TestLock_DeletedMeanwhile_IsNoSuccess"),
		in("pkg/lockset/lock.go", "the manifest of a locked backup is not kept", askedIsDone,
			"		r.Objects, err = retain(ctx, c.Store, m, o)\n		return r, err\n	}\n	return r, failure.New", "		return r, nil\n	}\n	return r, failure.New",
			"TestLock_BucketWithObjectLock_KeepsTheObjectsAsLong"),
		in("pkg/lockset/retain.go", "what can still be unlocked keeps its objects for good", finalIsTyped,
			"o.Mode == ebs.LockCompliance && o.CoolOff == 0", "o.Mode == ebs.LockCompliance",
			"TestLock_BucketWithObjectLock_KeepsTheObjectsAsLong"),
		in("pkg/objstore/retention.go", "a retention is made shorter", extendOnly,
			"	if has.Until.After(wanted.Until) {", "	if false {",
			"TestBucket_Retain_ComplianceStays"),
		in("pkg/lockset/lock.go", "a part of the locks is removed where one is permanent", extendOnly,
			"	if n > 0 {", "	if false {",
			"TestUnlock_AllOrNone_AndAgain"),
	}
}

// adoptGuards are those by which parts become one backup only if they are one.
func adoptGuards() []Mutant {
	const whole = "a backup of parts has every store once, of one hold, or is not made"
	const owner = "what another storage made is deleted there"
	return []Mutant{
		in("pkg/adopt/merge.go", "a part that is missing is not missed", whole,
			`			if owner[id] == "" {`, `			if owner[id] == "" && false {`,
			"TestAdopt_WhatItRefuses_BeforeTheFirstChange"),
		in("pkg/adopt/merge.go", "parts of two holds are adopted", whole,
			"		case m.HeldBy != first.of.HeldBy:", "		case m.HeldBy != first.of.HeldBy && false:",
			"TestAdopt_WhatItRefuses_BeforeTheFirstChange"),
		in("pkg/adopt/merge.go", "the whole is restored to a ts that a part's cut does not have", whole,
			"	if a == 0 || b < a {", "	if a == 0 || b > a {",
			"TestAdopt_AllParts_AreOneBackup"),
		in("pkg/adopt/merge.go", "early apply is ruled out though a part may have it", whole,
			"		out.State = manifest.EarlyApplyUnproven\n", "		_ = 0\n",
			"TestAdopt_EarlyApply_IsTheWorstOfTheParts"),
		in("pkg/adopt/adopt.go", "a snapshot of another volume is adopted", whole,
			"		case got.Volume != want.Volume:", "		case false:",
			"TestAdopt_WhatItRefuses_BeforeTheFirstChange"),
		in("pkg/adopt/adopt.go", "a part can be deleted under the whole", owner,
			"		if err == nil && (held == nil", "		if false && (held == nil",
			"TestAdopt_AllParts_AreOneBackup"),
		in("pkg/adopt/adopt.go", "a signature that is asked for is not made, silently", askedIsDone,
			"	c.VerifyKey = c.SignKey.VerifyKey()\n", "",
			"TestAdopt_WithASigningKey_IsSignedOrRefused"),
		in("pkg/gc/delete.go", "deleting an adopted backup deletes the snapshots of its parts", owner,
			"x.manifest != nil && x.manifest.Adopted()", "x.manifest != nil && x.manifest.Adopted() && false",
			"TestDelete_AdoptedBackup_LeavesTheSnapshotsToItsParts"),
		in("pkg/manifest/parts.go", "a store in two parts is valid", whole,
			"			f.check(in[id] == \"\", ", "			f.check(true, ",
			"TestValidate_Parts_HaveEveryStoreOnce"),
	}
}
