package mutants

// archiveGuards are those by which an archive gives back exactly what was put in.
func archiveGuards() []Mutant {
	const asItWas = "any damage of an archive is found, and never restored silently"
	return []Mutant{
		in("pkg/archive/codec/decode.go", "a block that is too short is given back", asItWas,
			"	if err == nil && n != len(block) {", "	if false {",
			"TestDecode_WrongLength_Refused"),
		in("pkg/archive/codec/probe.go", "the probe leaves out blocks that only entropy coding shrinks", asItWas,
			"= 7.8 //", "= 0.0 //",
			"TestEncode_Auto_LosesNoRatio"),
	}
}
