package mutants

// aheadGuards are those against replicas whose data are ahead of their raft logs.
func aheadGuards() []Mutant {
	const plan, planned = "pkg/resolve/plan/choose_leaders.go", "TestMakePlan_ReplicasAheadOfTheirLogs"
	const ahead, find = "pkg/resolve/plan/ahead.go", "pkg/resolve/find_ahead.go"
	const refused, none = "TestG16_ReplicaAheadOfTheLog_IsRefusedByName", "TestMakePlan_NoHealthyReplicaIsLeft_IsCorrupt"
	return []Mutant{
		in(plan, "a replica that is ahead wins a tie", noneAhead,
			"rank(c.ahead(i))-rank(c.ahead(best)), ", "", planned),
		in(plan, "a replica that is ahead shares a tie with one that is not", noneAhead,
			" && c.ahead(best) == c.ahead(i)", "", planned),
		in("pkg/resolve/plan/move.go", "a replica that is ahead is tried where another does not come to lead", noneAhead,
			" && !p.affects(l.Region, id)", "", planned),
		in(ahead, "a replica that was found before is none once the leader's log has grown", noneAhead,
			"found && (c.certain || applied > best.index)", "found && applied > best.index", planned),
		in(ahead, "a region without a healthy replica is planned", noneAhead,
			"	case len(none) > 0:", "	case false:", none),
		in(ahead, "a region that lacks a replica is to lose another", noneAhead,
			"	case len(few) > 0:", "	case false:", none),
		in("pkg/resolve/plan/unchanged.go", "a region with a replica that is ahead passes for unchanged", noneAhead,
			"!affected[log.Region] && ", "", "TestUnchanged_ReplicaAheadOfTheLog_IsTakenBack"),
		in(find, "replicas that are ahead are not looked for in a backup that does not rule them out", noneAhead,
			"	if r.cfg.NoneAhead {", "	if !r.cfg.NoneAhead {", refused),
		in(find, "a run that resumes looks again, when it is not to be seen any more", noneAhead,
			"	case err == nil && saved.EarlyApply != nil:", "	case err == nil:", refused),
		in("pkg/resolve/make_plan.go", "a backup with replicas that are ahead is restored", noneAhead,
			"	if len(made.Affected) > 0 {", "	if false {", refused),
		in("pkg/resolve/stamp.go", "which replicas are ahead is not written down", noneAhead,
			"		EarlyApply: r.early,\n", "", "TestFindAhead_WhatWasFound_IsWrittenDown"),
	}
}
