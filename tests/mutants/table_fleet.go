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
	}
}
