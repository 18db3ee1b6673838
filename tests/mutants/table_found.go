package mutants

// foundEarly is a promise of package preflight.
const foundEarly = "what would fail later is found before anything is changed"

// foundGuards are those of failures that were seen with real systems.
func foundGuards() []Mutant {
	return []Mutant{
		in("pkg/backup/await_spacing.go", "the deleted snapshots of a failed run are waited for within the hold", foundEarly,
			"	if deleted.After(last) &&", "	if false &&",
			"TestRightAfterAFailedRun_WaitsBeforeTheHold"),
		in("pkg/backup/await_deleted.go", "snapshots that were deleted in progress are met in the hold", foundEarly,
			"shown+len(cuts) < preflight.PendingPerVolume", "shown < preflight.PendingPerVolume",
			"TestFiveSetsWereDeletedInProgress_WaitsBeforeTheHold"),
		in("pkg/restore/volumes/unusable_key.go", "a key that is not enabled is not named", errorTable,
			"answer.Known && !answer.Enabled || u.allFailed", "u.allFailed",
			"TestKeyAtFault_NamesTheKeyAndItsState"),
		in("pkg/restore/volumes/replace.go", "a failed volume is asked for with its own token", errorTable,
			"		v.generation++\n", "",
			"TestAllVolumesFailAtOnce_AreReplacedInOneRound").heldBy("pkg/restore"),
		in("pkg/restore/volumes/check_tags.go", "tags that may not be put back are left out without a word", knownAndKept,
			"	case err != nil:\n		s.Warn(", "	case err != nil && false:\n		s.Warn(",
			"TestTagsOfAVolumeMayNotBePutBack_TheVolumeIsNamed").heldBy("pkg/restore"),
		{
			Name: "a store may be left out although its regions have no quorum", Promise: exactlyOnce, File: "pkg/restore/without_stores.go",
			Old: "	case v.Refused != nil:", New: "	case false:",
			Package: "tests", Tests: "^TestStoreNeverComesUp_HintIsToDoWithoutItIfThereIsAQuorum$",
		},
		in("pkg/resolve/without.go", "stores that are not read yet count as read", exactlyOnce,
			"			if !rd.done {", "			if false {",
			"TestWithout_WhileStoresAreAwaited_ReportsWhatTheOthersProve"),
		{
			Name: "certificate files give way to the cluster's secret", Promise: provenServer, File: "pkg/cli/tls.go",
			Old: "	if !tc.TLS || c.clientTLS() != nil {", New: "	if !tc.TLS {",
			Package: "tests", Tests: "^TestClientSecretCannotBeUsed_IsRefusedAndFilesWin$",
		},
		{
			Name: "a restore begins although its client certificate may not be read", Promise: foundEarly, File: "pkg/kube/tls_secrets.go",
			Old: "	if c.clientSecret && slices", New: "	if false && slices",
			Package: "tests", Tests: "^TestClientSecretCannotBeUsed_IsRefusedAndFilesWin$",
		},
		in("pkg/kube/operator1/tidb_replicas.go", "TiDB runs while the data are resolved", takenBack,
			"	if !isNumber || replicas == 0 {", "	if isNumber || replicas == 0 {",
			"TestTiDB_NoneDuringTheRestore_IsPutBackAsItWas"),
		in("pkg/kube/operator1/state.go", "a restored cluster stays without TiDB", takenBack,
			"	withTiDB(o)\n", "",
			"TestTiDB_NoneDuringTheRestore_IsPutBackAsItWas"),
		in("pkg/restore/marks.go", "regions are left alone beside a TiDB that may write to them", takenBack,
			"	if why := r.target.mayHaveTiDB(ctx); why != \"\" {", "	if why := r.target.mayHaveTiDB(ctx); false {",
			"TestLoadMarks_WhatDecides"),
		in("pkg/restore/marks.go", "regions are left alone beside a TiDB that has not ended", takenBack,
			"	case len(pods) > 0:", "	case false:",
			"TestLoadMarks_WhatDecides"),
		in("pkg/resolve/freeze/freeze.go", "a pause that is under way is carried out after PD was released", releasedOrReported,
			"	ctx, release := wait.Outlive(ctx, lastAnswers)", "	ctx, release := context.WithCancel(ctx)",
			"TestThaw_PauseUnderWay_IsWaitedForAndResumed"),
	}
}
