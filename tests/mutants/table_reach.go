package mutants

// reachGuards are those by which archives take no more memory, and no longer, however large and far away they are.
func reachGuards() []Mutant {
	const bounded = "memory does not grow with the repository"
	return []Mutant{
		in("pkg/cli/archive_create.go", "garbage gathers beside the buffers of an archive", bounded,
			"			a.limitMemory()\n", "", "TestArchive_CommandsWithLargeBuffers_LimitMemory"),
		in("pkg/archive/repository/way.go", "a storage far away gets few packs at a time", "an archive uses the bandwidth that there is",
			"		if w = row.Way; latency <= row.within {", "		if w = row.Way; latency >= 0 {", "TestWay_FurtherAway_MoreAndSmallerPacks"),
		in("pkg/archive/repository/read.go", "nothing is read while blocks are written", "an archive uses the bandwidth that there is",
			"limit+limit/2", "limit", "TestReadBlocks_UseTakesLong_OthersAreReadMeanwhile"),
		in("pkg/archive/repository/read.go", "more is read at the same time than was allowed", bounded,
			"case rooms <- struct{}{}:", "case make(chan struct{}, 1) <- struct{}{}:", "TestReadBlocks_UseTakesLong_OthersAreReadMeanwhile"),
		in("pkg/objstore/latency.go", "the time of a large upload is taken for the latency", "an archive uses the bandwidth that there is",
			" || r.ContentLength > smallRequest {", " {", "TestLatency_IsThatOfTheFastestSmallRequest"),
		in("pkg/archive/verify/against.go", "an archive is taken for the snapshot, of which a block has other content", "any difference is named",
			"	if digest != want {", "	if digest != want && len(want) == 0 {", "TestRun_Against_EachDifferenceIsNamed"),
		in("pkg/archive/verify/against.go", "an archive is taken for the snapshot, which lacks its last blocks", "any difference is named",
			"	c.unlisted(next, part.First+part.Blocks)\n", "", "TestRun_Against_EachDifferenceIsNamed"),
		in("pkg/archive/repository/packing.go", "a pack is larger than the repository's are", bounded,
			"min(cmp.Or(o.Way.Size, r.settings.PackSize), r.settings.PackSize)", "cmp.Or(o.Way.Size, r.settings.PackSize)",
			"TestPack_SizeOfTheWay_IsAtMostTheRepositorys"),
	}
}
