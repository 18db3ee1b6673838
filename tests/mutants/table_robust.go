package mutants

// robustGuards are those by which a run outlasts, or names, what goes wrong around it.
func robustGuards() []Mutant {
	return []Mutant{
		in("pkg/backup/runbook.go", "one answer of a PD that elects its leader ends a backup in its preflight", errorTable,
			"ReadOnly: true, Retry: true, Patience: preflight.Patience}", "ReadOnly: true}",
			"TestPreflight_OneTransientAnswer_IsTriedAgain"),
		in("pkg/restore/steps.go", "one answer of an API server that restarts ends a restore in its preflight", errorTable,
			"Do: r.preflight, ReadOnly: true, Retry: true, Patience: preflight.Patience}", "Do: r.preflight, ReadOnly: true}",
			"TestPreflight_OneTransientAnswer_IsTriedAgain"),
		in("pkg/restore/await_stores.go", "a store that crashes before it reaches PD is waited for to the end", errorTable,
			"if err := watch.check(ctx); err != nil {", "if err := watch.check(ctx); err != nil && false {",
			"TestRun_StoreCrashesBeforeItReachesPD_EndsWithItsLastWords"),
		in("pkg/restore/await_stores.go", "a store that the cluster is to do without is waited for", errorTable,
			"return slices.Contains(r.opts.TolerateStores, id) })", "return false })",
			"TestRun_ToleratedStoreNeverComes_IsRestoredWithoutIt"),
		in("pkg/restore/find_cluster.go", "a store that the backup lacks may be done without", exactlyOnce,
			"		if !slices.Contains(ids, id) {", "		if false {",
			"TestRun_ToleratesAStoreThatTheBackupLacks_IsRefusedBeforeAnyChange"),
		in("pkg/backup/check_tags.go", "a snapshot without its tags is left so, and gc never finds it", knownAndKept,
			"		if len(missing) == 0 {", "		if true {",
			"TestRun_SnapshotLosesItsTags_PutBackOrNamed"),
		in("pkg/restore/check_tags.go", "a volume without its tags is left so, and gc never finds it", knownAndKept,
			"	if len(tags) == 0 {", "	if true {",
			"TestRestore_VolumeLosesItsTag_PutBack"),
		in("pkg/backup/await_spacing.go", "the time between two snapshots of a volume passes while the cluster is held", provenHold,
			"	if left <= 0 {", "	if true {",
			"TestRun_RightAfterAnother_WaitsBeforeTheHold"),
		in("pkg/backup/await_pending.go", "snapshots that are pending are waited for while the cluster is held", provenHold,
			"	if len(busy) == 0 {", "	if true {",
			"TestRun_VolumeWithFivePendingSnapshots_IsWaitedForBeforeTheHold"),
		in("pkg/tikv/error_table.go", "a store that restarts is taken for one with another certificate", errorTable,
			"return strings.Contains(why, text) }", "return text != why }",
			"TestTranslate_HandshakeFailed_IsDeniedOnlyForACertificate"),
		in("pkg/failure/transient.go", "an error that nobody knows is final", errorTable,
			"	return k == Unknown || k == Limited", "	return k == Limited",
			"TestTransient_NotYet_ByKind"),
		in("pkg/phase/step.go", "a step without a deadline is run", errorTable,
			"		case s.Deadline <= 0:", "		case s.Deadline < 0:",
			"TestRun_StepWithoutDeadline_IsRefusedBeforeAnything"),
		in("pkg/wait/wait.go", "a pause outlasts a run that was cancelled", undoneInOrder,
			"	if ctx.Err() != nil {\n		return context.Cause(ctx)\n	}\n", "",
			"TestFor_ContextHasEnded_NeverSaysThatItWaited"),
		in("pkg/failure/remote.go", "the text of another system writes to the terminal what it likes", noSecrets,
			"		case unprintable(r):\n", "		case false:\n",
			"TestLine_RemoteText_IsCutAndStripped"),
	}
}

// reportingGuards are those of what shows, sends and counts runs.
func reportingGuards() []Mutant {
	return []Mutant{
		in("pkg/outbound/client.go", "a report is sent to a URL that is none of HTTP, and an error repeats it", noSecrets,
			"	if err != nil || u.Host == \"\" || (u.Scheme != \"http\" && u.Scheme != \"https\") {", "	if err != nil || u.Host == \"\" {",
			"TestCheckURL_OnlyHTTP"),
		in("pkg/exporter/guard.go", "a page of another site reads the exporter's by a name of its own", noSecrets,
			"		case !public && !loopbackName(r.Host):", "		case false:",
			"TestPage_IsReadOnlyAndGuarded"),
		in("pkg/runs/runs.go", "a run counts as alive by the lock of another one", oneRun,
			"	case lock.Owner.Run == r.ID && lock.Held(time.Now()):", "	case lock.Held(time.Now()):",
			"TestList_StatesOfRuns"),
		in("pkg/ui/queue.go", "a terminal that is stuck holds a run up", undoneInOrder,
			"	case q.wake <- struct{}{}:\n	default:\n", "	case q.wake <- struct{}{}:\n",
			"TestProgress_StreamIsStuck_EmitDoesNotBlock"),
	}
}
