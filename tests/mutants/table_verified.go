package mutants

// verifiedGuards are those by which no archive counts as verified that verifications have not found whole.
func verifiedGuards() []Mutant {
	const (
		unread = "what counts as verified was read, and found whole"
		failed = "		if err != nil {\n			return failure.Annotate(err, op, r.store.URL())\n		}\n"
	)
	return []Mutant{
		in("pkg/archive/verify/verify.go", "an archive is verified that has a block which the same run found lost", unread,
			"v.spread(ctx, archives); err", "v.spread(ctx, nil); err",
			"TestRun_LostBlockInASample_IsOfAllThatShareIt"),
		in("pkg/archive/verify/shared.go", "damage of an archive hides what else of it was found lost", unread,
			"		if a == nil {\n",
			"		if a == nil || func() bool {\n			for f := range v.found.object {\n				if f.archive == v.options.Archives[i] {\n"+
				"					return true\n				}\n			}\n			return false\n		}() {\n",
			"TestRun_SeveralLostBlocksInASample_AreOfAllThatHaveThem"),
		in("pkg/archive/verify/shared.go", "a lost block that an archive has twice is named once", unread,
			"		for _, b := range has.lost {\n",
			"		for _, b := range has.lost {\n			if v.found.object[foundIn{at, b.pack.Path(), false}] != nil {\n				continue\n			}\n",
			"TestRun_SeveralLostBlocksInASample_AreOfAllThatHaveThem"),
		in("pkg/archive/verify/shared.go", "a block is lost that its volume does not have", unread,
			"if has.blocks != blocks {", "if false {",
			"TestRun_LostBlockInAMapOfAnotherLength_IsNotOfItsVolume"),
		in("pkg/cli/archive_verify.go", "an archive that is named twice is read twice", unread,
			"if !slices.Contains(ids, id) {", "if !slices.Contains(ids, id) || true {",
			"TestArchiveVerify_NamedTwice_CountsOnce"),
		in("pkg/cli/archive_verified.go", "damage that is found without reading blocks leaves an archive verified", unread,
			"if whole = nil; len(ids) == 0 {", "if whole = nil; true {",
			"TestArchiveVerified_DamageIsFoundInAnyWay_IsUnread"),
		in("pkg/cli/archive_repair.go", "damage that a repair leaves leaves an archive verified", unread,
			"if !f.dryRun && report.Found != nil {", "if false {",
			"TestArchiveVerified_DamageIsFoundInAnyWay_IsUnread"),
		in("pkg/cli/archive_verified.go", "what another command has written meanwhile stays", unread,
			"|| try == recordTries {", "|| try > 0 {",
			"TestRecordArchives_OthersWriteIt_IsWrittenAgain"),
		in("pkg/archive/repository/verified.go", "a verification is not recorded if another one came first", unread,
			"|| try == verifiedTries {", "|| try > 0 {",
			"TestRecordVerified_OthersRecordMeanwhile_BothStay"),
		in("pkg/archive/repository/verified.go", "a verification drops what another one has recorded of a new archive", unread,
			"		v, version, err := r.verified(ctx)\n"+failed+"		there, err := r.Versions(ctx) //",
			"		there, err := r.Versions(ctx)\n"+failed+"		v, version, err := r.verified(ctx) //",
			"TestRecordVerified_OthersRecordMeanwhile_BothStay"),
		in("pkg/cli/archive_forget.go", "the storage counts archives that were forgotten", unread,
			"	a.recordInStorage(ctx, r)\n", "",
			"TestArchiveForget_WithTheStorage_CountsWhatIsLeft"),
		in("pkg/cli/archive_prune.go", "blocks that a prune has moved count as read", unread,
			"		a.recordInStorage(ctx, r) //", "		//",
			"TestArchivePrune_MostlyUnusedPacks_AreRewritten"),
		in("pkg/manifest/archives.go", "a cluster whose archives cannot be read has none", unread,
			"a.Unreadable > 0 && ", "false && ",
			"TestArchiveVerified_ArchiveCannotBeRead_IsCounted").heldBy("pkg/cli"),
		in("pkg/fleet/archives.go", "an archive that cannot be read counts as verified", unread,
			"	if c.Unreadable > 0 {", "	if false {",
			"TestPage_ArchiveCannotBeRead_IsUnverified").heldBy("pkg/exporter"),
		in("pkg/objstore/over.go", "an object that fails its checksum can never be replaced", unread,
			"if o.Key == key {", "if false {",
			"TestWriteOver_MissingDamagedOrWhole"),
		in("pkg/cli/archive_describe.go", "who may not read what was verified cannot see an archive", unread,
			"err != nil && !failure.Is(err, failure.Denied)", "err != nil && failure.Is(err, failure.Denied)",
			"TestArchiveDescribe_RecordMayNotBeRead_IsUnknown"),
	}
}
