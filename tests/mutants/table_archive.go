package mutants

// archiveGuards are those by which an archive gives back exactly what was put in.
func archiveGuards() []Mutant {
	const (
		asItWas        = "any damage of an archive is found, and never restored silently"
		onlyForReaders = "an archive reveals nothing without a key"
	)
	return []Mutant{
		in("pkg/fleet/state.go", "the lock of a cluster's archives is taken for a cluster", "the page and status show what is there",
			"if of, by, beside := journal.Beside(name); beside {", "if of, by, beside := journal.Beside(name); beside && false {",
			"TestRead_LockOfArchives_IsTheClusters"),
		in("pkg/archive/snapshot/target.go", "a snapshot that lacks blocks is taken for the volume", asItWas,
			"t.ebs.Complete(ctx, t.ID, v.Counts.Saved, ebsdirect.Sum(v.Checksum))", "error(nil)",
			"TestComplete_BlockIsMissing_RefusedByEBS"),
		in("pkg/archive/volume/segment.go", "a changed block is taken for the one at its place in the base", asItWas,
			"p.State == format.Saved && p.Block.Digest == digest && int", "p.State == format.Saved && int",
			"TestArchive_WithABase_PacksOnlyWhatChanged"),
		in("pkg/archive/volume/segment.go", "an increment takes its base's map for its own", asItWas,
			"		w.own(int64(len(w.places)))\n", "",
			"TestArchive_Difference_ReadsOnlyWhatIsListed"),
		in("pkg/archive/repository/list.go", "an older archive is given for the latest, which is damaged", asItWas,
			"broken := entries[0]; broken.Err != nil {", "broken := entries[0]; false {",
			"TestFind_LatestMayBeDamaged_Refused"),
		in("pkg/archive/verify/check.go", "verify does not notice that a pack ends early", asItWas,
			"		case size < end:", "		case size < end && false:",
			"TestRun_Levels"),
		in("pkg/archive/verify/check.go", "verify does not compare maps with packs", asItWas,
			"	if v.options.Level != Objects {", "	if false {",
			"TestRun_Levels"),
		in("pkg/archive/verify/check.go", "verify takes a block that cannot be read for sound", asItWas,
			"				c.lose(i, lost)\n				c.share(read[i], lost)\n", "",
			"TestRun_FlippedBit_IsOfOneBlock"),
		in("pkg/archive/volume/stream.go", "a damaged block is zeros on standard output", asItWas,
			"	return window, failed(\"restore volume\", v, bad.ranges())", "	return window, nil",
			"TestStream_DamagedBlock_EndsBeforeIt"),
		in("pkg/archive/snapshot/restore.go", "a killed restore leaves a snapshot that the same command does not finish", asItWas,
			"	if refused != nil && !failure.Is(refused, failure.Usage) && !failure.Is(refused, failure.Conflict) {", "	if refused != nil {",
			"TestRestore_KilledAnywhere_TheSameCallFinishesIt"),
		in("pkg/archive/volume/compare.go", "an image is kept that is not the volume's", asItWas,
			"				return false, nil\n", "				return true, nil\n",
			"TestCompare_AnyDifference_IsSeen"),
		in("pkg/archive/volume/file.go", "a file that lacks blocks looks whole", asItWas,
			"counted{&Image{To: file, OneByOne: file.direct == nil}, wrote}, reads); err != nil {", "counted{&Image{To: file}, wrote}, reads); false {",
			"TestWriteFile_DamagedBlock_LeavesNoFile"),
		in("pkg/archive/volume/image.go", "a device keeps what it had where a volume has zeros", asItWas,
			"	if !m.Dirty {", "	if true {",
			"TestRestore_DirtyImage_IsCleared"),
		in("pkg/archive/volume/parts.go", "a volume is restored by the map of another", asItWas,
			"		if whole && (counts != v.Counts || checksum.Sum() != v.Checksum) {", "		if whole && counts != v.Counts {",
			"TestRestore_MapIsNotTheArchives_Refused"),
		in("pkg/archive/repository/packing.go", "an archive is committed without a pack whose upload failed", asItWas,
			"		if err := p.repository.PutPack(p.ctx, p.Names.At(number), pack.data); err != nil {", "		if err := p.repository.PutPack(p.ctx, p.Names.At(number), pack.data); false {",
			"TestPacking_UploadFails_PackersEnd"),
		in("pkg/archive/codec/decode.go", "a block that is too short is given back", asItWas,
			"	if err == nil && n != len(block) {", "	if false {",
			"TestDecode_WrongLength_Refused"),
		in("pkg/archive/codec/probe.go", "the probe leaves out blocks that only entropy coding shrinks", asItWas,
			"= 7.8 //", "= 0.0 //",
			"TestEncode_Auto_LosesNoRatio"),
		in("pkg/archive/format/pack.go", "a block is given back as one of another digest, codec or length", asItWas,
			"	return append(binary.BigEndian.AppendUint32(aad, b.Raw), byte(b.Codec))", "	return append(binary.BigEndian.AppendUint32(aad, b.Raw), byte(b.Codec))[:0]",
			"TestOpen_ChangedOrMoved_Refused"),
		in("pkg/archive/format/pack_write.go", "a block is sealed at an offset, and so by a nonce, that was used", onlyForReaders,
			"	if p.failed != nil {\n		return Block{}, p.failed\n", "	if false {\n		return Block{}, p.failed\n",
			"TestAdd_AfterAnError_SealsNothing"),
		in("pkg/archive/format/segment.go", "two compressions of a segment share a key and a nonce", onlyForReaders,
			"mac(sivKey, name[:], packed)", "mac(sivKey, name[:])",
			"TestSeal_CompressedOtherwise_HasAnotherKey"),
		in("pkg/archive/format/segment.go", "a segment is read under a name that is not of its content", asItWas,
			"	if subtle.ConstantTimeCompare(is[:], name[:]) == 0 {", "	if subtle.ConstantTimeCompare(is[:], name[:]) > 1 {",
			"TestOpenSegment_ChangedSwappedOrForeign_Refused"),
		in("pkg/archive/format/repository.go", "a client writes under a key that an attacker chose", onlyForReaders,
			"	if k.id != r.ID {", "	if false {",
			"TestUnlock_KeyOfAnother_Refused"),
		in("pkg/archive/format/repository.go", "settings are believed that were written without a key", asItWas,
			"	if !hmac.Equal(mac(key, r.signed), r.mac) {", "	if false && !hmac.Equal(mac(key, r.signed), r.mac) {",
			"TestUnlock_AnyChange_Refused"),
		in("pkg/archive/format/archive.go", "an archive is read whose maps do not cover its volumes", asItWas,
			"v.Size < 0 || int64(len(v.Segments)) != want {", "v.Size < 0 && int64(len(v.Segments)) != want {",
			"TestSeal_ArchiveThatContradictsItself_Refused"),
	}
}

// measuringGuards are those of what the user's own data are measured by.
func measuringGuards() []Mutant {
	return []Mutant{
		in("pkg/archive/bench/sample.go", "zeros count as data that compress well",
			"what is measured is what an archive would store", "!volume.IsZero(raw)", "raw != nil", "TestTake"),
	}
}

// archivingGuards are those of the run that makes an archive.
func archivingGuards() []Mutant {
	const (
		asItWas = "any damage of an archive is found, and never restored silently"
		resumes = "a run that was killed is resumed with what it did"
	)
	return []Mutant{
		in("pkg/archive/repository/reader.go", "a restore's buffers are as long as each range", asItWas,
			"make([]byte, max(size, MaxRange))", "make([]byte, size)",
			"TestReader_ShortRange_HasRoomForAny"),
		in("pkg/objstore/s3.go", "a restore gives up where connections are reset", asItWas,
			"const getTries = 8", "const getTries = 3",
			"TestS3Get_BodyBreaksAgainAndAgain_IsReadAgain"),
		in("pkg/archive/repository/packing.go", "a resumed run takes over a segment whose packs are not all stored", asItWas,
			"p.waiting[0].begun <= below", "true",
			"TestRun_PackWasNotStored_ItsBlocksAreReadAgain").heldBy("pkg/archive/create"),
		in("pkg/archive/create/read.go", "a resumed run reads again what a stored pack holds", resumes,
			"r.earlier.segments[i], found.in(i)", "r.earlier.segments[i], found.in(-1)",
			"TestRun_PackWasNotStored_ItsBlocksAreReadAgain"),
		in("pkg/archive/volume/segment.go", "what the base left out as free is not read once it is in use", asItWas,
			"			w.leftOut[index] = true\n", "			w.leftOut[index] = false\n",
			"TestArchive_FreeInTheBaseAndUsedNow_IsRead"),
		in("pkg/archive/volume/segment.go", "changes alone are archived after a base that left out what is in use", asItWas,
			"	if w.leftOut != nil && w.Whole == nil {", "	if false {",
			"TestArchive_FreeInTheBaseAndUsedNow_IsRead"),
		in("pkg/archive/volume/listed.go", "a list that breaks off has no more blocks", asItWas,
			"			if failed != nil || err != nil {", "			if failed != nil {",
			"TestArchive_ListOfTheWholeFails_IsTheError"),
		in("pkg/archive/create/works.go", "--skip-free=off is content with an archive that left blocks out", asItWas,
			"(base.Counts.Free == 0 || r.opts.SkipFree == SkipAuto)", "base.Size > 0",
			"TestRun_FreeBlocks_AreLeftOutOrNot"),
		in("pkg/archive/create/works.go", "an audit leaves blocks out", asItWas,
			"Audit: skip == SkipAudit", "Audit: skip == SkipOff",
			"TestRun_FreeBlocks_AreLeftOutOrNot"),
		in("pkg/archive/create/prepare.go", "a run that was stopped before it had a base cannot be resumed", resumes,
			"	if err := r.load(ctx); err != nil { // a process", "	if err := error(nil); err != nil { // a process",
			"TestRun_StoppedWithItsLease_ChoosesABase"),
		in("pkg/archive/create/run.go", "an archive that fails begins from scratch the next time", resumes,
			"Keeps: true", "Keeps: false",
			"TestRun_Stopped_ResumesWithWhatIsStored"),
	}
}

// fromArchiveGuards are those by which a restore from an archive makes, uses and deletes snapshots of its own alone.
func fromArchiveGuards() []Mutant {
	return []Mutant{
		in("pkg/archive/volume/fill.go", "a segment looks whole on a device before it is durable", "any damage of an archive is found, and never restored silently",
			"	if err := device.Sync(); err != nil {\n		return failure.Wrap(err, failure.Unknown, \"write device\", \"\")\n	}\n	if err := f.to", "	if err := f.to",
			"TestFill_PowerLostAtAnyWrite_IsResumedExactly"),
		in("pkg/archive/volume/fill.go", "a segment looks whole by the first of its blocks to come", "any damage of an archive is found, and never restored silently",
			"	if index == f.mark {", "	if false {",
			"TestFill_PowerLostAtAnyWrite_IsResumedExactly"),
		in("pkg/restore/fromarchive/delete.go", "a restore deletes the snapshots of a process that has its lock", oneRun,
			"); err != nil {\n			return nil, err", "); false && err != nil {\n			return nil, err",
			"TestDelete_LaterProcessHasThem_DeletesNothing"),
		in("pkg/restore/fromarchive/source.go", "a volume is made of a snapshot that was not made", oneRun,
			"		if !there {\n			return nil, failure.New(failure.Corrupt, \"name snapshots\"", "		if !there && false {\n			return nil, failure.New(failure.Corrupt, \"name snapshots\"",
			"TestMade_Manifest_NamesAllOrNone"),
		in("pkg/restore/fromarchive/maker.go", "a restore takes the snapshot of another run", oneRun,
			"		string(m.owner.Run), m.source", "		m.source",
			"TestDescribe_TokenIsOfTheRun"),
		in("pkg/gc/decide.go", "gc deletes the snapshots of a restore from an archive that is alive", "nothing in use is deleted",
			"	case alive:\n		return it.decided(ActionInUse, \"%s\", because)\n	case because != \"\":\n		return it.decided(ActionKeep, \"%s\", because)\n	case r.Keep && !r.Served", "	case alive && false, because != \"\" && false:\n	case r.Keep && !r.Served",
			"TestSnapshot_OfAnArchive_IsDeletedWhenItsRestoreIsOver"),
	}
}

// wayGuards are those of how a restore from an archive makes its volumes.
func wayGuards() []Mutant {
	const file, meant = "pkg/cli/restore_archive.go", "a mistake of the user's is an error, and no other way"
	const where, unused = "TestChooseWay_ByWhereTheCommandRuns", "TestChooseWay_AWSCannotBeUsed_IsNotNoAWS"
	const resumed = "TestChooseWay_UnfinishedRun_ItsWay"
	return []Mutant{
		in(file, "a run that filled volumes is given up for one that makes snapshots", oneRun,
			"		case earlier != nil && earlier.About", "		case false && earlier.About", resumed),
		in(file, "a run that made snapshots is given up for one that fills volumes", oneRun,
			"		case earlier != nil || f.volumeFlags", "		case f.volumeFlags", resumed),
		in(file, "the way is that of a run of another Kubernetes cluster", oneRun,
			"	same := differs == nil && (proven || named != \"\")", "	same := differs == nil || !proven", resumed),
		in(file, "the way is that of a run of another archive", oneRun,
			"		if run.About.Request[name] != value {", "		if run.About.Request[name] == \"\" && value != \"\" {", resumed),
		in(file, "a named account that cannot be used counts as no AWS", meant,
			"	case ebs.IsAbsent(err) && !c.global.namesAWS():", "	case ebs.IsAbsent(err):", unused),
		in(file, "credentials that cannot be used count as no AWS", meant,
			"	case ebs.IsAbsent(err) && !c", "	case err != nil && !c", unused),
		in(file, "an archive that names no region counts as another one's", askedIsDone,
			"	case err == nil && region != \"\" && region", "	case err == nil && region", where),
		in("pkg/cli/restore_volume.go", "a setting of EBS volumes in the environment is refused by the default way", askedIsDone,
			"cmd.Flag(flag.Name).Changed", "typed(cmd, flag.Name)", where),
		in("pkg/ebs/client.go", "credentials that have expired count as none", meant,
			"		if aws.IsCredentialsProvider(cfg.Credentials, (*ec2rolecreds.Provider)(nil)) {", "		if (*ec2rolecreds.Provider)(nil) == nil {",
			"TestIsAbsent_NothingIsConfigured"),
	}
}

// keptGuards are those of Object Lock on what a repository has.
func keptGuards() []Mutant {
	const (
		locked  = "what archives use cannot be deleted for the retention of the repository"
		forGood = "what a prune deletes is gone, and not paid for behind a delete marker"
	)
	return []Mutant{
		in("pkg/archive/repository/retention.go", "what is written has no retention", locked,
			"s.Retention == (format.Retention{})", "s.Retention != (format.Retention{})",
			"TestRetention_WhatIsWritten_IsLocked"),
		in("pkg/archive/repository/stored.go", "what someone has put over a pack counts as the pack", locked,
			"			out = out[:n-1]\n", "			continue\n",
			"TestStored_HiddenByOthers_IsTheFirstVersion"),
		in("pkg/archive/prune/vault.go", "what someone has put over a pack is retained, and not the pack", locked,
			"p.vault.Extend(ctx, o.Key, o.ID, wanted)", "p.vault.Extend(ctx, o.Key, \"\", wanted)",
			"TestRun_HiddenByOthers_FirstVersionIsKept"),
		in("pkg/archive/prune/vault.go", "what runs under way have written is recorded as retained for longer", locked,
			"SetRetained(ctx, since.Add(", "SetRetained(ctx, p.vault.now.Add(",
			"TestRun_RecordOfRetention_IsNotBelievedTooFar"),
		in("pkg/archive/verify/check.go", "verify does not name a pack that someone has deleted", locked,
			"case c.hidden[place.Pack.Name.Path()]:", "case c.hidden[place.Pack.Name.Path()] && false:",
			"TestRun_HiddenObjects_AreNamedAndRead"),
		in("pkg/archive/verify/check.go", "verify does not read what someone has deleted", locked,
			"case c.hidden[place.Pack.Name.Path()]: // see behind", "case c.hidden[place.Pack.Name.Path()]:\n			c.lose(i, errHidden)",
			"TestRun_HiddenAndDamaged_IsFound"),
		in("pkg/archive/format/retained.go", "anyone can write that all is retained", locked,
			"err != nil || !hmac.Equal(want, object)", "err != nil || hmac.Equal(want, object) && false",
			"TestRetained_OnlyOfTheNewestKey"),
		in("pkg/archive/prune/mark.go", "what a map refers to that was just rewritten counts as garbage", locked,
			"marker) written(name format.SegmentName, s format.Segment) {\n	m.places(s)\n",
			"marker) written(name format.SegmentName, _ format.Segment) {\n", "TestRun_MostlyUnusedPack_IsRewritten"),
		in("pkg/archive/repository/verified.go", "an archive whose blocks were moved counts as read", locked,
			"is && r.Maps == maps", "is", "TestRecordVerified_UnreadUntilRead"),
		in("pkg/archive/prune/prune.go", "a prune forgets a deleted archive whose writer left its lease", locked,
			"if err == nil && !decided && o.Archive != \"\" {", "if false {",
			"TestRun_HiddenArchiveOfADeadWriter_IsNotForgotten"),
		in("pkg/archive/repository/versions.go", "a deleted archive counts as forgotten while S3 is busy", locked,
			"listErr != nil && !failure.Is(listErr, failure.Denied)", "false",
			"TestHidden_VersionsCannotBeRead_IsNoDamage"),
		in("pkg/archive/repository/hidden.go", "a deleted pack or map counts as missing while S3 is busy", locked,
			"	if failure.Is(err, failure.Denied) { // it remains", "	if err != nil { // it remains",
			"TestHidden_VersionsCannotBeRead_IsNoDamage"),
		in("pkg/archive/repository/read.go", "the version of a deleted pack counts as damaged while S3 is busy", locked,
			"	if damagedOrGone(err) || failure.Is(err, failure.Denied) {", "	if err != nil {",
			"TestHidden_VersionsCannotBeRead_IsNoDamage"),
		in("pkg/archive/repository/versions.go", "an older version is put over a deleted archive", locked,
			"listErr == nil && last[path].Version == old {", "listErr == nil && last != nil {",
			"TestRecommit_Hidden_IsThereAgain"),
		in("pkg/archive/prune/forget.go", "an archive counts as missing while S3 is busy", locked,
			"			case !replace.Gone(readErr):\n				err = readErr\n", "",
			"TestForget_Hidden_IsForgottenUnlessUnknown"),
		in("pkg/archive/prune/prune.go", "a prune that fails retains nothing for longer", locked,
			"	if ctx.Err() == nil { // whatever", "	if err == nil { // whatever",
			"TestRun_OtherFailure_InUseIsRetained"),
		in("pkg/archive/prune/prune.go", "one object that is no archive ends what all locks are extended by", locked,
			"p.extend(ctx, unreadable)", "p.extend(ctx, unreadable && false)",
			"TestRun_UnreadableArchive_AllIsRetained"),
		in("pkg/archive/repository/retention.go", "what an archive shares is said to be locked as long as it is", locked,
			"	if all.Before(kept.Until) {", "	if all.Before(kept.Until) && false {",
			"TestLockedUntil_IsNotAfterWhatItShares"),
		in("pkg/archive/prune/vault.go", "a prune deletes by the key, which leaves the bytes", forGood,
			"	if !p.vault.on {\n		return until", "	if p.vault.on {\n		return until",
			"TestRun_LockedGarbage_IsDeletedOnceItMayBe"),
	}
}
