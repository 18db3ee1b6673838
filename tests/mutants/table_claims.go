package mutants

// claimGuards are those of claims that an archive is restored to.
func claimGuards() []Mutant {
	const own = "what a run made is known by its mark and its UID"
	return []Mutant{
		in("pkg/kube/blockvolume/blockvolume.go", "a claim of another run is filled", own,
			"		if err := runmark.CheckMade(made, spec.Run, op, target); err != nil {",
			"		if err := runmark.CheckMade(made, spec.Run, op, target); false {",
			"TestMake_AgainAndByOthers"),
		in("pkg/kube/blockvolume/blockvolume.go", "a claim that took the place of a run's counts as its own", own,
			"apierrors.IsNotFound(err), err == nil && string(found.UID) != claim.UID:", "apierrors.IsNotFound(err):",
			"TestMark_IsReadByTheNextMake"),
		in("pkg/kube/blockvolume/blockvolume.go", "a claim of another run is deleted", own,
			"	if found != nil && !runmark.MadeBy(found, claim.Run) {", "	if false {",
			"TestRemove_ClaimsOfOthers_Stay"),
		in("pkg/kube/blockvolume/blockvolume.go", "a volume that a class retains outlives its claim", own,
			"		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete\n", "",
			"TestRemove_WaitsForClaimAndVolume"),
		in("pkg/kube/blockvolume/blockvolume.go", "a file system's volume is written to as a device", own,
			"	if !boundTo(pv, claim) || pv.Spec.CSI == nil || !isBlock(pv.Spec.VolumeMode) {",
			"	if !boundTo(pv, claim) || pv.Spec.CSI == nil {",
			"TestBound_NamesTheDriversVolume"),
		in("pkg/cli/archive_claims.go", "claims are removed without a yes", "nothing is deleted unasked",
			"	if !yes && !a.asks() {", "	if false {",
			"TestArchiveRestore_ToClaims_VolumesAreTheArchives"),
		in("pkg/archive/claims/claims.go", "a claim that took the place of a filled one counts as filled", own,
			"	spec.Env[\"CLAIM_UIDS\"] = strings.Join(uids, \",\")", "	spec.Env[\"CLAIM_UIDS\"] = strings.Join(uids[:0], \",\")",
			"TestArchiveRestore_ToClaims_ClaimWasReplaced_IsFilledAgain").heldBy("pkg/cli"),
		in("pkg/archive/claims/claims.go", "a volume that may be in use is filled again", own,
			"		if one.Claim.Filled == \"\" {", "		if true {",
			"TestArchiveRestore_ToClaims_VolumesAreTheArchives").heldBy("pkg/cli"),
	}
}
