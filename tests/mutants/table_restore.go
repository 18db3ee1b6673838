package mutants

func restoreGuards() []Mutant {
	return []Mutant{
		in("pkg/restore/ownership.go", "a step of a run that was suspended does not check the lock", oneRun,
			"steps[i].Guard = r.fence.Check", "steps[i].Guard = nil",
			"TestRun_LockLostWhileSuspended_NextStepDoesNothing"),
		in("pkg/restore/delete_volumes.go", "a failed restore deletes the volumes of another run", knownAndKept,
			"ebs.Tags{ebs.TagRun: string(r.opts.Run)})\n	for _, v := range found {", "ebs.Tags{ebs.TagBackup: string(r.opts.Backup)})\n	for _, v := range found {",
			"TestRun_FailsBesideAnotherRestoreOfTheBackup_DeletesOnlyItsOwnVolumes"),
		in("pkg/restore/delete_volumes.go", "a volume that EC2 hides while it is undone is forgotten", knownAndKept,
			"	return r.asked && gone < len(r.volumes)", "	return false",
			"TestRun_VolumeHiddenWhileItIsUndone_IsFoundAgain"),
		in("pkg/restore/delete_volumes.go", "a run that lost its lock deletes its successor's volumes", oneRun,
			"if r.opts.KeepOnFailure || r.fence.Taken(ctx) {", "if r.opts.KeepOnFailure {",
			"TestRun_FailsWhileAnotherRunHasTheLock_LeavesTheCluster"),
		in("pkg/kube/delete_cluster.go", "a cluster that somebody put there meanwhile is deleted", othersStay,
			"api.Delete(ctx, name.Name, onlyThis(found.GetUID()))", "api.Delete(ctx, name.Name, metav1.DeleteOptions{})",
			"TestDeleteCluster_ReplacedMeanwhile_TheOtherOneStays"),
		in("pkg/kube/delete_restored.go", "a claim takes the EBS volume that the run made along", knownAndKept,
			"		if restored(pv) {\n			policy", "		if false {\n			policy",
			"TestUndo_ReclaimPolicyDeleteByTheOperator_KeepsTheEBSVolumes"),
		in("pkg/kube/delete_restored.go", "a persistent volume is deleted whatever its policy is", knownAndKept,
			"now, err := c.setPolicy(ctx, pv, corev1.PersistentVolumeReclaimRetain, cluster.RunID(pv.Annotations[RunKey]))", "now, err := pv, error(nil)",
			"TestDeleteVolume_PolicyIsNotRetain_ThePVIsNotDeleted"),
		in("pkg/kube/delete_restored.go", "a persistent volume that changed since its policy was read is deleted", knownAndKept,
			"	this.Preconditions.ResourceVersion = &now.ResourceVersion\n", "",
			"TestDeleteVolume_PolicyChangedMeanwhile_IsSetAgainFirst"),
	}
}

func resolveGuards() []Mutant {
	return []Mutant{
		in("pkg/resolve/plan/overlap.go", "an older region wins over a newer one", exactlyOnce,
			"if newest.Len() > 0 && newest.items[0].version > s.version {", "if newest.Len() > 0 && newest.items[0].version < s.version {",
			"TestMakePlan_NewerRegion_WinsOverOlderThatItCovers"),
		in("pkg/resolve/sweep/coverage.go", "a hole in the key space counts as covered", exactlyOnce,
			"	return len(r.End) > 0 && bytes.Compare(r.End, before.End) <= 0", "	return true",
			"TestCoverage_AnyRanges_AgreesWithSetOfKeys"),
		in("pkg/cluster/key_range.go", "a hole between two regions is not found", exactlyOnce,
			"		case before > 0:", "		case false:",
			"TestTile_Faults_AreNamed"),
		in("pkg/cluster/key_range.go", "two regions may have the same keys", exactlyOnce,
			"		case !open || before < 0:", "		case !open:",
			"TestTile_Faults_AreNamed"),
	}
}
