package mutants

func brCommandGuards() []Mutant {
	return []Mutant{
		in("pkg/brcompat/main.go", "the document of an earlier Restore's volumes stays where the Operator deletes by it", othersStay,
			"	a.setAside(ctx, args)\n", "",
			"TestE16_PrepareFailsOfAnything_TheEarlierRestoresDocumentIsAway"),
		in("pkg/brcompat/restore_aside.go", "a wrong flag keeps the document of an earlier Restore's volumes in its place", othersStay,
			"		if cmd.ParseFlags(flags[i:i+1]) != nil && i+1 < len(flags) {", "		if cmd.ParseFlags(flags) != nil {",
			"TestE16_PrepareFailsOfAnything_TheEarlierRestoresDocumentIsAway"),
		in("pkg/catalog/br_restored.go", "the document of another Restore at the same time is deleted", othersStay,
			"c.Store.DeleteVersion(ctx, manifest.BRRestoreMeta, version)", "c.Store.Delete(ctx, manifest.BRRestoreMeta+string(version[:0]))",
			"TestSetRestoredAside_KeepsIt"),
		in("pkg/brcompat/volume_file.go", "a document of no stores is backed up", zeroIsAnError,
			"	case stores == 0:", "	case false:",
			"TestReadVolumeFile_DamagedObjects_AreRefused"),
		in("pkg/brcompat/volume_file.go", "a document of other numbers of stores is backed up", exactlyOnce,
			"case f.TiKV.Replicas != stores && f.TiKV.Replicas != stores+len(f.elsewhere):", "case false:",
			"TestReadVolumeFile_DamagedObjects_AreRefused"),
		in("pkg/brcompat/backup.go", "a backup without a seal says that it succeeded", sealedIsWhole,
			"	done := result.Sealed && (", "	done := (",
			"TestC17_BackupIsNotSealed_IsNoSuccess"),
		in("pkg/brcompat/backup.go", "a run that ended without an error and without a seal ends with 0", sealedIsWhole,
			"	if err == nil && !result.Sealed {", "	if false && !result.Sealed {",
			"TestC17_BackupIsNotSealed_IsNoSuccess"),
		in("pkg/brcompat/main.go", "the text of a failed Job stands in its condition twice", errorTable,
			"if a.log == nil || a.log.file != nil {", "if true {",
			"TestEnd_ErrorIsInTheConditionOnce"),
		in("pkg/brcompat/restore_run.go", "a restore that failed says that it succeeded", sealedIsWhole,
			"	if !done {\n		return err\n	}\n", "",
			"TestCarryOut_NotDone_SaysNoSuccess"),
	}
}
