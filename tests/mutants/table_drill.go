package mutants

// drillGuards are those by which a drill proves something, and changes nothing but its own.
func drillGuards() []Mutant {
	const provesSomething = "a drill passes only by what it has checked"
	const ownCage = "a drill removes what it made, by its run and the namespace's UID"
	const closed = "a copy reaches nothing but itself"
	const onlyReads = "a check reads, and nothing else"
	return []Mutant{
		in("pkg/tidb/client.go", "any statement is sent to TiDB", onlyReads,
			"	if !reads.MatchString(statement) || executes", "	if executes",
			"TestQuery_Writes_Refused"),
		in("pkg/tidb/client.go", "statements run in sessions that can write, at any time", onlyReads,
			`map[string]string{"tidb_snapshot": `, `map[string]string{"tidb_read_staleness": `,
			"TestQuery_Writes_Refused|TestQuery_ReadsWhenTheClientWasOpened"),
		in("pkg/tidb/client.go", "sessions without a timestamp can write", onlyReads,
			"	if err == nil && ts == 0 {", "	if false {",
			"TestOpen_Refused"),
		in("pkg/tidb/error_table.go", "a report shows the rows that TiDB finds inconsistent", noSecrets,
			"	if c.kind == failure.Corrupt {", "	if false {",
			"TestCheckTable_RowsAndEntriesDisagree_Corrupt"),
		in("pkg/drill/checks/result.go", "a drill without checks passes", provesSomething,
			"	if len(asked) == 0 {", "	if false {",
			"TestRun_NothingChecked_Failed"),
		in("pkg/drill/checks/result.go", "tables that are not there are checked with success", provesSomething,
			"r.Count(kind, Passed) == 0", "r.Count(kind, Passed) < 0",
			"TestRun_NothingChecked_Failed"),
		in("pkg/drill/checks/run.go", "an inconsistent table is a check that could not be made", provesSomething,
			"errors.As(err, &found), failure.Is(err, failure.Corrupt):", "errors.As(err, &found):",
			"TestRun_TableIsInconsistent_FailedByItAlone"),
		in("pkg/drill/checks/statement.go", "a canary of after the backup is as good as one before", provesSomething,
			"	case age < 0:", "	case false:",
			"TestRun_CanaryLaterThanTheBackup_Failed"),
		in("pkg/kube/cage/cage.go", "a namespace that someone else made becomes a cage", ownCage,
			"	if err := runmark.CheckMade(ns, spec.Run, op, name); err != nil {", "	if err := runmark.CheckMade(ns, spec.Run, op, name); false {",
			"TestMake_NamespaceIsAnothers_Conflict"),
		in("pkg/kube/cage/remove.go", "a namespace that took the place of a cage is deleted", ownCage,
			"			Preconditions: &metav1.Preconditions{UID: &uid},", "			Preconditions: &metav1.Preconditions{UID: map[bool]*types.UID{false: &uid}[true]},",
			"TestRemove_ReplacedMeanwhile_Stays"),
		in("pkg/kube/cage/remove.go", "the cage of another run is deleted", ownCage,
			"		if found.Run != cage.Run || ", "		if ",
			"TestRemove_ThisCageAlone"),
		in("pkg/kube/cage/policy.go", "the copy may connect to anywhere", closed,
			"			PolicyTypes: both,\n", "			PolicyTypes: both[:1],\n",
			"TestMake_ClosesTheNamespace"),
		in("pkg/kube/cage/cage.go", "a load balancer leads into the copy", closed,
			"			corev1.ResourceServicesLoadBalancers:  count(0),\n", "",
			"TestMake_ClosesTheNamespace|TestMake_ServicesOfOutside_AreRefused"),
		in("pkg/kube/cage/prove.go", "a network that ignores policies is good enough", closed,
			"		case connected == c.allowed:", "		case connected || !c.allowed:",
			"TestProve_NetworkDoesNot_Refused"),
		in("pkg/kube/cage/prove.go", "a network that lets nothing through proves that a cage is closed", closed,
			"		case connected == c.allowed:", "		case connected == c.allowed, c.allowed:",
			"TestProve_NetworkDoesNot_Refused"),
		in("pkg/kube/cage/prove.go", "a network plugin has no time to apply a policy", closed,
			"end = time.Now().Add(enforcedWithin)", "end = time.Now().Add(-enforcedWithin)",
			"TestProve_TimeOfThePlugin_IsCountedFromTheFirstAnswer"),
		in("pkg/kube/cage/prove.go", "a probe that stays in production is not reported", ownCage,
			"			left := probes.Remove(bounded, namespace)", "			left, _ := error(nil), probes.Remove(bounded, namespace)",
			"TestProve_ProbesCannotBeRemoved_IsInTheError"),
		in("pkg/kube/cage/probe_pods.go", "a probe that could not be made counts as a connection that failed", closed,
			"(t.ExitCode == 0 || t.ExitCode == 1)", "t.ExitCode >= 0",
			"TestProve_ProbeFails_ProvesNothing"),
	}
}

// drillRunGuards are those of the run of a drill.
func drillRunGuards() []Mutant {
	const provesSomething = "a drill passes only by what it has checked"
	const ownCage = "a drill removes what it made, by its run and the namespace's UID"
	const closed = "a copy reaches nothing but itself"
	return []Mutant{
		in("pkg/kube/remove_caged.go", "a cluster is removed in a namespace that is no cage of the run", ownCage,
			"		if err := c.checkNamespace(ctx, op, name.Namespace, namespace); err != nil {",
			"		if err := c.checkNamespace(ctx, op, name.Namespace, namespace); false {",
			"TestRemoveCaged_WhatIsNotTheRuns_Stays"),
		in("pkg/kube/remove_caged.go", "a cluster of another run is removed from a cage", ownCage,
			"		case !runmark.MadeBy(found, run):", "		case false:",
			"TestRemoveCaged_WhatIsNotTheRuns_Stays"),
		in("pkg/drill/cage.go", "a namespace that took the place of the cage is torn down", ownCage,
			`		if r.made.cage.UID != "" && c.UID != r.made.cage.UID {`, "		if false {",
			"TestClean_NamespaceIsAnother_Stays"),
		in("pkg/drill/cage.go", "a restore goes into a cage that was not proven", closed,
			"	return cage.Prove(", "	return nil\n	return cage.Prove(",
			"TestRun_CageIsNotProven_NothingIsRestored"),
		in("pkg/drill/tear_down.go", "the volume of another drill is deleted", ownCage,
			" && v.Tags[ebs.TagDrill] == string(r.opts.Run)", "",
			"TestClean_WhatIsNotItsOwn_Stays"),
		in("pkg/drill/tear_down.go", "a volume that others use is deleted", ownCage,
			"		if pv, is := named[id]; is {", "		if pv, is := named[id]; is && false {",
			"TestClean_VolumeIsUsedElsewhere_Stays"),
		in("pkg/drill/tear_down.go", "a volume that EC2 hides is not waited for", ownCage,
			"	if hidden {\n", "	if false {\n",
			"TestClean_RestoreDiedAskingForVolumes_WaitsForHiddenOnes"),
		in("pkg/drill/run.go", "a drill is torn down in another Kubernetes", ownCage,
			"was.KubernetesUID != r.about.KubernetesUID || ", "",
			"TestClean_Refused"),
		in("pkg/drill/options.go", "a drill that checks nothing begins", provesSomething,
			"	case len(c.Statements)+len(c.Sums)+c.Tables == 0 && !c.AllTables:", "	case false:",
			"TestRun_Refused_ChangesNothing"),
	}
}
