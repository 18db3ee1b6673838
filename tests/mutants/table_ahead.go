package mutants

// aheadGuards are those against replicas whose data are ahead of their raft logs.
func aheadGuards() []Mutant {
	const plan, planned = "pkg/resolve/plan/choose_leaders.go", "TestMakePlan_ReplicasAheadOfTheirLogs"
	const ahead, steps, take = "pkg/resolve/plan/ahead.go", "pkg/resolve/steps.go", "pkg/resolve/take_ahead.go"
	const record = "pkg/resolve/record.go"
	const refused, none = "TestReplicaAheadOfTheLog_IsRefusedByName", "TestMakePlan_NoHealthyReplicaIsLeft_IsCorrupt"
	return []Mutant{
		in(plan, "a replica that is ahead wins a tie", noneAhead,
			"rank(c.ahead(i))-rank(c.ahead(best)),\n", "", planned),
		in(plan, "a replica that is ahead shares a tie with one that is not", noneAhead,
			" && c.ahead(best) == c.ahead(i)", "", planned),
		in("pkg/resolve/plan/move.go", "a replica that is ahead is tried where another does not come to lead", noneAhead,
			" && !p.affects(l.Region, id)", "", planned),
		in(ahead, "a replica that was found before is none once the leader's log has grown", noneAhead,
			"found && (c.certain || applied > best.index)", "found && applied > best.index", planned),
		in(ahead, "a region of which no replica is healthy is planned", noneAhead,
			"	case len(many) > 0:", "	case false:", none),
		in(ahead, "a region that a replica ahead may have split is planned", noneAhead,
			"	case len(split) > 0:", "	case false:", none),
		in(ahead, "a region that lacks a replica is to lose another", noneAhead,
			"	case len(few) > 0:", "	case false:", none),
		in("pkg/resolve/plan/unchanged.go", "a region with a replica that is ahead passes for unchanged", noneAhead,
			"!affected[log.Region] && ", "", "TestUnchanged_ReplicaAheadOfTheLog_IsFlashedBack"),
		in(steps, "replicas that are ahead are not looked for in a backup that does not rule them out", noneAhead,
			"	if r.cfg.NoneAhead {", "	if !r.cfg.NoneAhead {", refused),
		in(record, "a run that resumes searches again, when there is nothing left to find", noneAhead,
			"	case err == nil && saved.EarlyApply != nil:", "	case err == nil:", refused),
		freezing("a run that resumes trusts a PD that may have copied a replica that is ahead", noneAhead,
			"fmt.Sprint(frozen[item]) {", "fmt.Sprint(frozen[item]) && false {", refused),
		in(take, "a replica that is ahead passes where it cannot be rebuilt", noneAhead,
			"	if !cfg.Rebuilds {", "	if false {", refused),
		in(steps, "a replica that is ahead leads on, and ends TiKV at the first proposal", noneAhead,
			"	if regions, err = leads.handOver(ctx, s, regions); err != nil {", "	if err != nil {", "TestAffectedLeader_HandsOverToOneWithItsWholeLog"),
		in("pkg/resolve/hand_over.go", "a log of an older term is taken for that of the leader", noneAhead,
			"state.Term == leader.Term && ", "", "TestAffectedLeader_HandsOverToOneWithItsWholeLog"),
		in("pkg/resolve/hand_over.go", "a replica leads that lacks a part of the log", noneAhead,
			"state.Last >= leader.Last {", "state.Last > 0 {", "TestAffectedLeader_HandsOverToOneWithItsWholeLog"),
		in("pkg/restore/await_stores.go", "br's data phase leaves replicas that are ahead to a TiDB that starts", noneAhead,
			"Rebuilds: !r.backup.multiCluster,", "Rebuilds: true,", "TestResolveData_ReplicaAheadOfTheLog_IsRefusedWithTheWayOut"),
		in("pkg/testbed/replicas.go", "a replica with other data than its leader's passes for equal", noneAhead,
			"			case other.Sum != r.Sum:", "			case false:", "TestCompareReplicas_OneStoreHasAVersionMore_IsSeen"),
		in("pkg/testbed/command/soak_early.go", "a restore that does not name a replica that is ahead has named all", noneAhead,
			"named < want && ", "false && ", "TestJudgeEarly_RefusalHasToNameEveryReplica"),
		in(record, "which replicas are ahead is not written down", noneAhead,
			"		EarlyApply: r.early,\n", "", "TestFindAhead_WhatWasFound_IsWrittenDown"),
	}
}

// rebuildGuards are those of the rebuild of such replicas.
func rebuildGuards() []Mutant {
	const all, rebuild = "pkg/resolve/rebuild.go", "pkg/resolve/rebuild_region.go"
	const leave = "pkg/resolve/leave.go"
	const raised = "TestRebuild_LimitsOfPD_AreRaisedOnceAllAreRemoved"
	const spared, killed = "TestRebuild_RemovesOnlyWhatIsListedAndCanBeSpared", "TestRebuild_KilledAfterTheRemoval_TheNewPeerStays"
	const lost = "TestStartOver_ReplicasAheadNeverChecked"
	const restored = "TestRestore_ReplicaAheadOfTheLog_IsRebuiltBeforeTiDBStarts"
	return []Mutant{
		in(rebuild, "the last voters of a region are removed, though all have data that no log has", noneAhead,
			"	case w.healthy(region) == 0:", "	case false:", spared),
		in(rebuild, "a replica is removed of a region without a majority beside it", noneAhead,
			"	case up < len(others)/2+1:", "	case false:", spared),
		in(all, "a second replica of a region is removed beside the first", noneAhead,
			"		asked[region.ID] = true", "		asked[region.ID] = false", spared),
		in(all, "a part of a region that PD does not know yet keeps its replica", noneAhead,
			"case region == nil || !known.Contains(p.Keys):", "case region == nil:", spared),
		in(leave, "PD makes replicas while one that is ahead can lead", noneAhead,
			"	if err := w.removeAll(ctx, s); err != nil {",
			"	if err := r.freezer.MakingReplicas(ctx, rebuildAtOnce, func() error { return w.removeAll(ctx, s) }); err != nil {", raised),
		in(all, "a run that resumes does not know that none is left", noneAhead,
			"	return w.record.noteEarly(ctx, &EarlyApply{Affected: early.Affected, Rebuild: early.Rebuild, Removed: true})",
			"	w.record.early = &EarlyApply{Affected: early.Affected, Rebuild: early.Rebuild, Removed: true}\n	return nil", "TestRebuild_KilledOnceAllAreRemoved_PDMayScheduleMeanwhile"),
		freezing("PD may copy a replica that is ahead ten minutes after a kill", noneAhead,
			"	f.ahead.Store(ahead)", "	f.ahead.Store(false)", raised),
		freezing("a run that fails lets PD copy a replica that is ahead", noneAhead,
			"	if !ahead {", "	if true {", "TestRebuild_FailsWhileAReplicaIsAhead_PDStaysFrozen"),
		in(rebuild, "a replica that was made again is removed, which is not on the list", noneAhead,
			"q.Store == p.Store && q.ID == p.Peer", "q.Store == p.Store", spared),
		in(rebuild, "a region that has split off keeps its replica's data", noneAhead,
			"	case listed == nil:", "	case false:", spared),
		in(rebuild, "a run that resumes does not know which peer is the old one", noneAhead,
			"	return w.record.noteEarly(ctx, &EarlyApply{Affected: w.record.early.Affected, Rebuild: list})",
			"	w.record.early = &EarlyApply{Affected: w.record.early.Affected, Rebuild: list}\n	return nil", killed),
		in(leave, "a run that may not have searched continues to TiDB", noneAhead,
			"	if r.cfg.NoneAhead {", "	if true {", "TestRebuild_ReplicasAheadNeverChecked_IsRefused"),
		freezing("PD makes no replica, as it is frozen", noneAhead,
			"	limits[replicaLimit] = f.replicas.Load()\n", "", raised),
		in("pkg/resolve/extend_logs.go", "a replica that is elected before it is rebuilt answers nothing", noneAhead,
			"		case state.Last >= a.Applied:", "		case true:", "TestReplicaAheadOfTheLog_IsRebuilt"),
		in("pkg/restore/start_over.go", "a run that cannot know which replicas were ahead is continued", noneAhead,
			"p.Run == r.opts.Run && p.EarlyApply == nil:", "p.Run == r.opts.Run && p.EarlyApply != nil:", lost),
		in("pkg/restore/start_over.go", "a cluster that may serve is removed, as the replicas that were ahead are unknown", noneAhead,
			"served := r.target.leftRecovery || ", "served := ", lost),
		in("pkg/restore/start_over.go", "volumes with live data are deleted, as the replicas that were ahead are unknown", noneAhead,
			" || r.earlier.Served || r.earlier.LeftRecovery != nil", "", lost),
		in("pkg/restore/create_cluster.go", "a run that starts over meets what its earlier process has left damaged", noneAhead,
			"	if err := t.progress().Clear(ctx); err != nil {", "	if err := ctx.Err(); err != nil {",
			"TestRestore_ResumesOneThatHasNotLooked_OntoFreshVolumes"),
		in("pkg/restore/start_over.go", "what was to be kept is removed, as the replicas that were ahead are unknown", noneAhead,
			"	if why == \"\" || !r.earlier.keep && !r.target.existing {", "	if true {", lost),
		in("pkg/restore/start_over.go", "volumes that gc deleted are given to the stores", "a run that is resumed has what it made, or makes it again",
			"	if gone == 0 {\n		return", "	if true {\n		return", "TestStartOver_VolumesWereDeleted"),
		in("pkg/restore/start_over.go", "volumes that EC2 hides are made again", "a run that is resumed has what it made, or makes it again",
			"made, h.Done(stepAwaitVolumes))", "made, true)", "TestStartOver_VolumesAreHidden_AreAwaited"),
		in("pkg/restore/leave_recovery.go", "TiDB starts with the stores although replicas are to be rebuilt", noneAhead,
			"err != nil || len(rebuild) > 0 {", "err != nil {", restored),
		in("pkg/restore/steps.go", "TiDB starts before the replicas are rebuilt", noneAhead,
			"After: []string{journal.StepRebuild}", "After: []string{\"await-restart\"}", "TestServingSteps_TiDBStartsAfterTheRebuild"),
		in("pkg/restore/rebuild_replicas.go", "replicas are rebuilt under another's TiDB", noneAhead,
			"len(pods) == 0 {", "true {", "TestLeaveRecovery_TiDBRunsAndReplicasAreToBeRebuilt_IsRefused"),
	}
}

// freezing is a row of what keeps PD frozen. The tests are the resolver's.
func freezing(name, promise, from, to, tests string) Mutant {
	m := in("pkg/resolve/freeze/freeze.go", name, promise, from, to, tests)
	m.Package = "pkg/resolve"
	return m
}
