package mutants

// doctorGuards are the checks that dry runs and `tisnap doctor` share.
func doctorGuards() []Mutant {
	whole := func(file, name, from, to, tests string) Mutant {
		return Mutant{Name: name, Promise: foundEarly, File: file, Old: from, New: to, Package: "tests", Tests: "^(" + tests + ")$"}
	}
	return []Mutant{
		whole("pkg/storage/prove.go", "a storage that became read-only passes a dry run",
			"	return s, Prove(ctx, store)\n", "	return s, nil\n",
			"TestDryRun_StorageIsReadOnly_IsRefused"),
		whole("pkg/restore/preflight.go", "a restore plans volumes with a KMS key that cannot be used",
			"	if err := r.planner().CheckKeys(ctx, s, plan); err != nil {", "	if err := error(nil); err != nil {",
			"TestDryRun_KMSKeyIsUnusable_IsRefused"),
		whole("pkg/backup/steps.go", "volumes whose KMS key is gone are backed up",
			"	if err := r.source.checkKeys(ctx, s); err != nil {", "	if err := error(nil); err != nil {",
			"TestDryRun_KMSKeyIsUnusable_IsRefused"),
		whole("pkg/doctor/check.go", "a check that could not be made is ok",
			"	return c.as(Unknown, failure.HintOf(err), ", "	return c.as(OK, failure.HintOf(err), ",
			"TestDoctor_OneThingIsWrong_IsFoundWithItsFix"),
		whole("pkg/doctor/storage.go", "a lifecycle rule that deletes backups is not found",
			"		case len(expire) > 0:", "		case false:",
			"TestDoctor_OneThingIsWrong_IsFoundWithItsFix"),
		whole("pkg/doctor/storage.go", "a clock with which AWS refuses requests is a warning",
			"	case skew.Abs() > failSkew:", "	case false:",
			"TestDoctor_OneThingIsWrong_IsFoundWithItsFix"),
		whole("pkg/doctor/account.go", "a default key that AWS has not made yet fails the doctor",
			"case failure.Is(err, failure.NotFound) && chosen.Name == ebs.OwnKeyAlias:", "case false:",
			"TestDoctor_PermissionOfACopyOrDrillIsMissing_IsFound"),
		whole("pkg/doctor/account.go", "a missing permission to ask for the default key fails the doctor",
			"	case failure.Is(err, failure.Denied):\n		return c.as(Warn, failure.HintOf(err), \"%v; without it the", "	case false:\n		return c.as(Warn, failure.HintOf(err), \"%v; without it the",
			"TestDoctor_OneThingIsWrong_IsFoundWithItsFix"),
		whole("pkg/cli/doctor.go", "a script does not learn that a check failed",
			"		if c.Status == doctor.Fail {", "		if false {",
			"TestDoctor_OneThingIsWrong_IsFoundWithItsFix"),
		in("pkg/doctor/doctor.go", "a side that never answers keeps all checks waiting", foundEarly,
			"		return open(limited)\n", "		_ = limited\n		return open(ctx)\n",
			"TestRun_OneSideHangs_TheOthersAreReported"),
		in("pkg/objstore/bucket.go", "a bucket that may not be looked at has no lifecycle rule", foundEarly,
			"	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == \"\" {", "	if failure.KindOf(err) != failure.Held {",
			"TestBucket_Refused_IsDenied"),
		in("pkg/objstore/bucket.go", "a lifecycle rule above the storage's prefix is overlooked", foundEarly,
			" || strings.HasPrefix(b.store.prefix, prefix)", "",
			"TestBuckets_S3"),
		in("pkg/kube/permissions.go", "a verb that a backup needs is not checked", foundEarly,
			"		{\"get\", \"\", \"nodes\"},\n", "",
			"TestManifest_Backup"),
	}
}
