package mutants

// fleetGuards are those by which many clients use one archive repository, and prune it.
func fleetGuards() []Mutant {
	const noLoss = "no archive loses a block to a prune"
	return []Mutant{
		in("pkg/archive/repository/repository.go", "a segment is written under a name that a late prune may still delete", noLoss,
			"s.SealUnique(r.keys)", "s.Seal(r.keys)",
			"TestRepository_ArchiveOfAVolume_IsGivenBack"),
		in("pkg/archive/repository/repository.go", "a tombstone is read as a damaged archive", noLoss,
			"	if string(object) == format.Tombstone {", "	if false {",
			"TestArchive_Tombstone_IsNone"),
		in("pkg/archive/lease/others.go", "the writer of a broken lease can commit", noLoss,
			"	if o.Archive != \"\" {", "	if false {",
			"TestBreak_Writer_CannotCommit"),
		in("pkg/archive/lease/others.go", "a lease that cannot be read is broken", noLoss,
			"	if o.Err != nil {\n		return o.Err", "	if false {\n		return o.Err",
			"TestAll_UnreadableLease_BlocksEverything"),
		in("pkg/archive/lease/lease.go", "a reader's lease does not hold what is condemned already", noLoss,
			"epoch = min(epoch, list.Epoch-1)", "epoch = max(epoch, list.Epoch-1)",
			"TestCondemn_Leases_ByEpoch"),
		in("pkg/archive/lease/epoch.go", "a list of condemned objects may have archives", noLoss,
			"		if pack != nil && segment != nil {", "		if pack != nil && segment == nil {",
			"TestKeys_OfAnArchive_AreRefused"),
		in("pkg/archive/create/using.go", "an archive refers to a pack that is about to be deleted", noLoss,
			"condemned.Has(s[i].Pack.Name.Path())", "condemned.Has(\"\")",
			"TestRun_BaseIsCondemned_RefersToNoneOfIt"),
		in("pkg/archive/create/using.go", "a run continues although its lease was broken", noLoss,
			"		if _, missing := r.Repository.Archive(ctx, r.choice.Archive); missing == nil {", "		if true {",
			"TestRun_LeaseIsBroken_FailsClosed"),
	}
}
