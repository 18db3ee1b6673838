package mutants

// workerGuards are those of Jobs whose pods work for a run.
func workerGuards() []Mutant {
	const own = "what a run made is known by its mark and its UID"
	return []Mutant{
		in("pkg/kube/podreason/podreason.go", "what a container writes controls the terminal", nothingFromOutside,
			"string { return failure.Line(firstReason(p, warning)) }", "string { _ = failure.Line; return firstReason(p, warning) }",
			"TestOf_HostileText_IsOneLineWithoutControls"),
		in("pkg/kube/workers/jobs.go", "a Job of another run is taken for the run's own", own,
			"		if err := runmark.CheckMade(made, spec.Run, op, target); err != nil {",
			"		if err := runmark.CheckMade(made, spec.Run, op, target); false {",
			"TestMake_OfAnotherRun_Conflict"),
		in("pkg/kube/workers/jobs.go", "a Job of another image stays when the same command has a new one", askedIsDone,
			"made.Annotations[digestKey] == want.Annotations[digestKey]", "made.Annotations[digestKey] != \"\"",
			"TestMake_OtherSpecOrFailed_IsMadeAgain"),
		in("pkg/kube/workers/jobs.go", "a Job that failed is found again and never works", askedIsDone,
			"		if _, failed := ended(made); !failed && ", "		if _, failed := ended(made); (failed || !failed) && ",
			"TestMake_OtherSpecOrFailed_IsMadeAgain"),
		in("pkg/kube/workers/jobs.go", "a Job that took the place of a run's is deleted", own,
			"apierrors.IsNotFound(err) || err == nil && found.UID != uid:", "apierrors.IsNotFound(err):",
			"TestRemove_ThisJobAlone"),
		in("pkg/kube/workers/jobs.go", "a Job of another run is deleted", own,
			"		case !runmark.MadeBy(found, job.Run):", "		case false:",
			"TestRemove_ThisJobAlone"),
		in("pkg/kube/workers/jobs.go", "another Job's pods count as those of a run's", own,
			"(string(o.UID) != job.UID || o.DeletionTimestamp != nil)", "o.DeletionTimestamp != nil",
			"TestWait_SomeoneDeletedIt_NotFound"),
		in("pkg/kube/workers/jobs.go", "a Job that failed is waited for", "every wait ends",
			"		if s.Broken {", "		if false {",
			"TestWait_JobFailed_NamesTheCodeAndTheLastWords"),
		in("pkg/kube/workers/spec.go", "a pod of a drained node counts as failed", "a drained node is not a failure",
			"Action: batchv1.PodFailurePolicyActionIgnore,", "Action: batchv1.PodFailurePolicyActionCount,",
			"TestObject_FailuresAndSecurity"),
		in("pkg/kube/workers/spec.go", "a wrong key is tried until the retries are used up", errorTable,
			"	if len(s.Final) > 0 {", "	if len(s.Final) > 99 {",
			"TestObject_FailuresAndSecurity"),
	}
}
