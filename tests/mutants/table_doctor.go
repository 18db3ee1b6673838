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
	}
}
