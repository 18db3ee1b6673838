package mutants

// unitGuards are those by which processes share the making of an archive.
func unitGuards() []Mutant {
	return []Mutant{
		in("pkg/archive/create/share.go", "a run waits for ever for units that a prune deleted", "every wait ends",
			"	if err == nil && !open {", "	if false && !open {",
			"TestShared_PlanIsGone_AllEnd"),
		in("pkg/archive/create/join.go", "a command that joined a run without an archive ends well", "0 is of a job that was done",
			"				return true, ended(ctx, j.Repository, j.opts.Archive)", "				return true, nil",
			"TestShared_PlanIsGone_AllEnd"),
		in("pkg/archive/create/prepare.go", "an archive is shared in a storage where each claims every unit", "a unit has one result",
			"	if r.opts.Shared && !r.Repository.Settings().Storage.ManyWriters() {", "	if false {",
			"TestShared_StorageIgnoresConditions_Refused"),
		in("pkg/archive/create/join.go", "a process reads another region, where no snapshot is", "errors have a hint",
			"	if d.Region != deps.Region {", "	if false {",
			"TestJoin_OtherRegion_Refused"),
		in("pkg/archive/units/units.go", "what an archive in the making has done is deleted", "who makes an archive finds its own work",
			"		if !working[archive] {", "		if !working[archive] || true {",
			"TestTidy_ArchiveInTheMaking_IsKept"),
		in("pkg/archive/create/join.go", "a dead process's unit waits for a quarter of an hour", "a killed process loses one unit at most",
			"		if claimer == j.opts.Name {", "		if claimer == j.opts.Name && false {",
			"TestShared_ProcessDies_ItsUnitIsDoneAgain"),
		in("pkg/archive/create/join.go", "a unit of a process that is gone for ever is never done", "an archive that is shared ends",
			"			if time.Since(before.at) >= j.opts.reclaimAfter {", "			if false {",
			"TestShared_ProcessDies_ItsUnitIsDoneAgain"),
		in("pkg/archive/create/join.go", "a process tries to claim all units that others claimed", "claims are few of the requests",
			"		if !mine && !fresh {", "		if false && !mine {",
			"TestJoin_OthersClaimMeanwhile_AsksForNoneOfTheirs"),
		in("pkg/archive/create/join.go", "each process reads the claims of all others", "claims are few of the requests",
			"		if j.before[id].Claimed != s.Claimed {", "		if false {",
			"TestJoin_OthersClaimMeanwhile_AsksForNoneOfTheirs"),
	}
}
