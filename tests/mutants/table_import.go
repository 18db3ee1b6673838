package mutants

// importGuards are those of archives of plain volumes.
func importGuards() []Mutant {
	const (
		oneTime = "an import is its sources at one time, or nothing"
		noLoss  = "a prune deletes nothing that an import refers to"
		noStand = "an import never stands in for a backup"
	)
	return []Mutant{
		in("pkg/archive/importer/read.go", "a file is archived that was changed while it was read", oneTime,
			"	return r.unchanged()\n}", "	return nil\n}",
			"TestRun_FileChanges_Conflict"),
		in("pkg/archive/importer/earlier.go", "blocks of a changed file are taken over from an earlier process", oneTime,
			"state == \"\" || v >= len(states) || states[v] != state", "v >= len(states)",
			"TestRun_Killed_TheSameRequestContinues"),
		in("pkg/archive/importer/read.go", "standard input that is cut off is archived, although its size is given", oneTime,
			"v.Size != r.opts.StdinSize:", "v.Size < 0:",
			"TestRun_Refuses"),
		in("pkg/archive/volume/pipe.go", "a source that fails is archived up to there", oneTime,
			"	if p.ended != nil && !errors.Is(p.ended, io.EOF) {", "	if false && !errors.Is(p.ended, io.EOF) {",
			"TestPipe_ReaderFails_IsTheError"),
		in("pkg/archive/volume/segment.go", "a block is taken over that is another one by now", oneTime,
			"w.packedBefore(index); ok && isBlock(place, digest, raw) {", "w.packedBefore(index); ok {",
			"TestArchive_Reread_TakesWhatIsTheSame"),
		in("pkg/archive/volume/direct.go", "another file that took the name is read in place of the one that is open", oneTime,
			"	if f.direct != nil && !isSame(file, f.direct) {", "	if false && !isSame(file, f.direct) {",
			"TestNewDirect_AnotherFileHasTheName_IsNotRead"),
		in("pkg/archive/volume/image.go", "blocks with others between them are read as one row", oneTime,
			"return before == Block(imageBlock{b.image, b.index - 1})", "return before != nil",
			"TestArchive_FreeBlocks_AreNotReadAndAreZeros"),
		in("pkg/archive/volume/open.go", "what took the place of a file is read, be it a mounted device", oneTime,
			"	if info.Mode().Type() != as {", "	if false {",
			"TestFile_Measure_AnotherTypeThanSeen_IsAConflict"),
		in("pkg/archive/volume/segment.go", "the end of a shorter volume is taken over as a block", oneTime,
			"if ok = ok && int64(place.Block.Raw) == w.sizeOf(index); ok {", "if ok {",
			"TestArchive_EarlierHadAnotherSize_NothingShorterIsTaken"),
		in("pkg/archive/volume/archive.go", "the map of a shorter volume is taken over", oneTime,
			"				err = task.takes(k, name, places)", "				err = nil",
			"TestArchive_EarlierHadAnotherSize_NothingShorterIsTaken"),
		in("pkg/archive/importer/choose.go", "an import of other sources is continued", oneTime,
			"	case !was.is(r.request()):", "	case false:",
			"TestRun_AnotherRequest_IsAnotherImport"),
		in("pkg/archive/importer/choose.go", "an import refers to what a prune is deleting", noLoss,
			"		if !allowed {", "		if false && !allowed {",
			"TestRun_BaseIsCondemned_StoresAll"),
		in("pkg/restore/fromarchive/source.go", "a restore does not name an import as what it is", noStand,
			"	if s.Archive.Imported() {", "	if false {",
			"TestArchiveImport_IsAnArchiveOfVolumesAlone").heldBy("pkg/cli"),
		in("pkg/cli/archive_snapshots.go", "a snapshot of an import carries a backup's tag", noStand,
			"	if !m.archive.Imported() {", "	if true {",
			"TestDescribe_Import_IsOfNoBackup"),
		in("pkg/archive/prune/forget.go", "the imports of all names are one series", noLoss,
			"of = a.Created, \"import \"+a.Backup", "of = a.Created, \"import\"",
			"TestArchiveForget_Imports_NewestOfEachNameIsKept").heldBy("pkg/cli"),
	}
}
