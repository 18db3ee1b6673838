package mutants

// callGuards take away the call of a guard, or what is passed to it: the guard itself stays, and its own tests pass.
func callGuards() []Mutant {
	const fits = "TestRestore_TargetFitsTheBackup"
	whole := func(file, name, promise, from, to, tests string) Mutant {
		return Mutant{Name: name, Promise: promise, File: file, Old: from, New: to, Package: "tests", Tests: "^(" + tests + ")$"}
	}
	return []Mutant{
		in("pkg/backup/cut.go", "the snapshots' start times are not checked against the cut", provenHold,
			"	return times, made.checkStarts(c.opts.Cluster)\n", "	return times, nil\n",
			"TestRun_ASetThatStartedBeforeItWasAskedFor_IsNotSealed"),
		in("pkg/backup/steps_record.go", "a manifest is written of a cut that is not proven", provenHold,
			"	if err := r.at.proof.check(\"record backup\", r.opts.Backup, r.at.backupTS); err != nil {\n		return err\n	}\n", "",
			"TestRecordAndSeal_CutIsNotProven_AreCorrupt"),
		in("pkg/backup/seal.go", "a backup is sealed whose cut is not proven", provenHold,
			"	if err := p.check(\"seal backup\", w.opts.Backup, m.BackupTS); err != nil {\n		return err\n	}\n", "",
			"TestRecordAndSeal_CutIsNotProven_AreCorrupt"),
		in("pkg/backup/backup_ts.go", "a backup ts that GC may pass is taken", provenHold,
			"			return got, h.CoversTS(got)", "			return got, nil",
			"TestAwaitBackupTS_GCIsNotHeld_IsAConflict"),
		in("pkg/backup/hold.go", "a hold that another tool began after the preflight is ended", othersStay,
			"	if err := o.checkForeign(ctx); err != nil {", "	if err := error(nil); err != nil {",
			"TestRun_AnotherToolBeginsAfterThePreflight_IsRefusedAndKeepsItsHold"),
		in("pkg/restore/await_stores.go", "an empty store with the id of a restored one is recovered", exactlyOnce,
			"want == pod || domain == \"\"", "want != pod || domain == \"\"",
			"TestCheckPods_EmptyStoreHasTheIDOfARestoredOne_IsRefused"),
		in("pkg/restore/await_stores.go", "the pods of a restored cluster's stores are not checked", exactlyOnce,
			"		if err := checkPods(r.opts.Target, r.pods(), at); err != nil {", "		if err := error(nil); err != nil || len(at) < 0 {",
			"TestRun_EmptyStoreGetsTheIDOfARestoredOne_IsRefusedAndUndone"),
		in("pkg/restore/await_stores.go", "an empty store joins a cluster that is being recovered", exactlyOnce,
			"		if err := r.checkForeign(ids, up); err != nil {", "		if err := error(nil); err != nil {",
			"TestRun_EmptyStoreJoins_IsRefusedAndUndone"),
		whole("pkg/restore/create_cluster.go", "a target has the source's replicas, and not the backup's stores", sealedIsWhole,
			"Stores: stores, ", "", fits),
		whole("pkg/restore/create_cluster.go", "a target asks for volumes of another size than it gets", unknownIsKept,
			", SizesGiB: plan.SizesGiB(),", ",", fits),
		whole("pkg/restore/create_cluster.go", "a target cannot keep its source's service settings", unknownIsKept,
			"		KeepServiceSettings: t.opts.KeepServiceSettings, Changes", "		Changes", fits),
		whole("pkg/restore/preflight.go", "service settings are dropped without a word", unknownIsKept,
			"	if len(dropped) > 0 && !r.target.existing {", "	if false {", fits),
		whole("pkg/cli/target_flags.go", "--keep-service-settings does nothing", unknownIsKept,
			"	opts.KeepServiceSettings = f.keepServices\n", "", fits),
		whole("pkg/restore/poll.go", "a wait does not report what it waits for", errorTable,
			"					s.Note(\"waiting: %s\", reported)\n", "", fits),
		whole("pkg/cli/gc.go", "gc --cluster deletes no cluster", knownAndKept,
			", Clusters: f.clusters,", ",",
			"TestAbort_RestoreThatLeftAll_IsTakenAwayByOneCommand"),
		in("pkg/runner/runner.go", "one journal record that is late undoes a restore of hours", undoneInOrder,
			"		JournalPatience: LockTTL,\n", "",
			"TestRun_JournalIsAwayWhileTheDataAreResolved_IsRestored").heldBy("pkg/restore"),
		in("pkg/restore/steps.go", "a restore waits for its journal although all that it does can be found again", undoneInOrder,
			"		mayBeLate(\n			repeated(", "		slices.Concat(\n			repeated(",
			"TestSteps_OnceTheStoresAreRead_MayBeLate"),
		in("pkg/restore/resolve_only.go", "a resolve waits for its journal although all that it does can be found again", undoneInOrder,
			"		mayBeLate(", "		repeated(",
			"TestSteps_OnceTheStoresAreRead_MayBeLate"),
	}
}
