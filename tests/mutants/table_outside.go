package mutants

func outsideGuards() []Mutant {
	return []Mutant{
		in("pkg/ebs/cut.go", "a cut whose answer was lost is asked for again", lostAnswer,
			"tagged: true,\n		timeout: cutTimeout,", "tagged: true, repeatable: true,\n		timeout: cutTimeout,",
			"TestCut_AnswerLost_FoundByTagAndNotRepeated|TestCut_InternalError_NotRepeated"),
		in("pkg/ebs/cut.go", "a set of other volumes than were asked for is taken", provenHold,
			"	if !slices.Equal(got, wanted) {", "	if false {",
			"TestCut_OddAnswer_KindAndSnapshots|TestCut_VolumeComeSinceTheLook_ConflictWithAllThatWasMade"),
		in("pkg/ebs/cut.go", "an answer without snapshots is success", zeroIsAnError,
			"	if len(made) == 0 {", "	if false {",
			"TestCut_OddAnswer_KindAndSnapshots"),
		in("pkg/ebs/volumes.go", "a volume over the quota is not looked up, although it was made", lostAnswer,
			"	case slices.Contains(quotaCodes, code):", "	case false:",
			"TestCreateVolume_AnswerLostThenQuota_FoundByTag"),
		in("pkg/ebs/keep_tags.go", "a kept tag replaces one of tisnap's own", othersStay,
			"		if _, taken := own[key]; taken {", "		if false {",
			"TestKeepTags_AllowList_NothingElseAndOwnWin"),
		in("pkg/objstore/open.go", "credentials in the storage's URL are accepted", noSecrets,
			"	if u.User != nil {", "	if false {",
			"TestOpen_SecretInURL_IsRefusedAndNotRepeated"),
	}
}

func recordGuards() []Mutant {
	return []Mutant{
		in("pkg/manifest/seal.go", "a backup that is not sealed is opened", sealedIsWhole,
			"	if len(seal) == 0 {", "	if false {",
			"TestOpen_NotWhole_IsRefused"),
		in("pkg/manifest/seal.go", "a manifest that was changed after its seal is opened", sealedIsWhole,
			"if d := digest(doc); d != s.SHA256 {", "if d := digest(doc); d != s.SHA256 && false {",
			"TestOpen_NotWhole_IsRefused"),
		in("pkg/catalog/remove.go", "a backup that was sealed meanwhile is buried", sealedIsWhole,
			"	case onlyUnsealed:\n		return c.sealedMeanwhile(id)\n	default:", "	default:",
			"TestBury_SealedAndOnlyUnsealedAskedFor_StaysAsItIs"),
		in("pkg/catalog/remove.go", "the tombstone of a half removed backup goes first", sealedIsWhole,
			"{manifest.ManifestKey(id), manifest.ClaimKey(id), manifest.SealKey(id)}", "{manifest.SealKey(id), manifest.ManifestKey(id), manifest.ClaimKey(id)}",
			"TestRemove_Whole_IsBuriedFirstAndTheTombstoneGoesLast|TestRemove_CrashesAfterEachDelete_IsNeverRestorableAndEndsWhenRepeated"),
	}
}
