package mutants

// freeGuards are those by which an archive leaves out nothing that a file system can read.
func freeGuards() []Mutant {
	const free = "a block counts as free only if no mount can read it"
	return []Mutant{
		in("pkg/archive/ext4/map.go", "what ext4 keeps outside of files counts as free if no bitmap has it", free,
			"sb.start(g)+sb.base(g))", "sb.start(g))",
			"TestRead_Fixtures_AsRecorded"),
		in("pkg/archive/ext4/superblock.go", "a damaged superblock is believed", free,
			"crc32c(initial, raw[:0x3fc]) != u32(0x3fc)", "false",
			"TestRead_Damaged_NothingIsFree"),
		in("pkg/archive/ext4/groups.go", "a damaged descriptor is believed", free,
			"if uint16(crc32c(sb.seed, number, without(raw, 0x1e, 2))) != uint16(u16(0x1e)) {", "if number == nil {",
			"TestRead_Damaged_NothingIsFree"),
		in("pkg/archive/ext4/groups.go", "a damaged bitmap is believed", free,
			"if sum != g.sum {", "if false {",
			"TestRead_Damaged_NothingIsFree"),
	}
}
