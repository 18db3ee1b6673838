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
		in("pkg/archive/ext4/journal.go", "the bitmaps are taken as they are on disk, not as the journal has them", free,
			"	if err := d.replay(j); err != nil {", "	if j == nil {",
			"TestRead_Log_AsReplayed"),
		in("pkg/archive/ext4/replay.go", "a transaction of another number is replayed", free,
			" || binary.BigEndian.Uint32(l.buf[8:]) != number {", " {",
			"TestRead_Log_AsReplayed"),
		in("pkg/archive/ext4/replay.go", "a revoked copy is replayed", free,
			"			delete(d.copies, block)", "			_ = block",
			"TestRead_Log_AsReplayed"),
		in("pkg/archive/ext4/replay.go", "the log does not go round", free,
			"		l.at = l.journal.first\n", "",
			"TestRead_LogGoesRound_AsReplayed"),
		in("pkg/archive/ext4/replay.go", "blocks of an earlier use of the journal are replayed", free,
			"	case (l.doubt || !right) && time < l.last:", "	case false:",
			"TestRead_LogOfAnEarlierUse_Ends"),
		in("pkg/archive/ext4/replay.go", "a damaged block of the log is believed", free,
			"				l.wrong = \"a block\"", "				_ = sum",
			"TestRead_OddLog_NothingIsFree"),
		in("pkg/archive/ext4/disk.go", "a bitmap that looks like the journal's block is taken as it is in the log", free,
			"	if d.copies[block].escaped {", "	if false {",
			"TestRead_Escaped_AsReplayed"),
		in("pkg/archive/ext4/journal.go", "a resize that the journal ends is not noticed", free,
			"err == nil && after != sb {", "err == nil && false {",
			"TestRead_OddLog_NothingIsFree"),
	}
}
