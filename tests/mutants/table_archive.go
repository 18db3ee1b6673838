package mutants

// archiveGuards are those by which an archive gives back exactly what was put in.
func archiveGuards() []Mutant {
	const (
		asItWas        = "any damage of an archive is found, and never restored silently"
		onlyForReaders = "an archive says nothing to who has no key"
	)
	return []Mutant{
		in("pkg/archive/snapshot/target.go", "a snapshot that lacks blocks is taken for the volume", asItWas,
			"t.ebs.Complete(ctx, t.ID, v.Counts.Saved, ebsdirect.Sum(v.Checksum))", "error(nil)",
			"TestComplete_BlockIsMissing_RefusedByEBS"),
		in("pkg/archive/volume/segment.go", "a changed block is taken for the one at its place in the base", asItWas,
			"p.State == format.Saved && p.Block.Digest == digest && int", "p.State == format.Saved && int",
			"TestArchive_WithABase_PacksOnlyWhatChanged"),
		in("pkg/archive/volume/restore.go", "a volume is restored by the map of another", asItWas,
			"	if counts != v.Counts || checksum.Sum() != v.Checksum {", "	if counts != v.Counts {",
			"TestRestore_MapIsNotTheArchives_Refused"),
		in("pkg/archive/repository/repository.go", "a segment is taken for sound because there is one of its name", asItWas,
			"		_, err = r.Segment(ctx, name)\n	}\n	return name", "		err = nil\n	}\n	return name",
			"TestPutSegment_ExistingOneIsDamaged_Refused"),
		in("pkg/archive/repository/packing.go", "an archive is committed without a pack whose upload failed", asItWas,
			"		if err := p.repository.PutPack(p.ctx, ref.Name, pack.Bytes()); err != nil {", "		if err := p.repository.PutPack(p.ctx, ref.Name, pack.Bytes()); false {",
			"TestPacking_UploadFails_PackersEnd"),
		in("pkg/archive/codec/decode.go", "a block that is too short is given back", asItWas,
			"	if err == nil && n != len(block) {", "	if false {",
			"TestDecode_WrongLength_Refused"),
		in("pkg/archive/codec/probe.go", "the probe leaves out blocks that only entropy coding shrinks", asItWas,
			"= 7.8 //", "= 0.0 //",
			"TestEncode_Auto_LosesNoRatio"),
		in("pkg/archive/format/pack.go", "a block is given back as one of another digest, codec or length", asItWas,
			"	return append(binary.BigEndian.AppendUint32(aad, b.Raw), byte(b.Codec))", "	return append(binary.BigEndian.AppendUint32(aad, b.Raw), byte(b.Codec))[:0]",
			"TestOpen_ChangedOrMoved_Refused"),
		in("pkg/archive/format/pack_write.go", "a block is sealed at an offset, and so by a nonce, that was used", onlyForReaders,
			"	if p.failed != nil {\n		return Block{}, p.failed\n", "	if false {\n		return Block{}, p.failed\n",
			"TestAdd_AfterAnError_SealsNothing"),
		in("pkg/archive/format/segment.go", "two compressions of a segment share a key and a nonce", onlyForReaders,
			"mac(sivKey, name[:], packed)", "mac(sivKey, name[:])",
			"TestSeal_CompressedOtherwise_HasAnotherKey"),
		in("pkg/archive/format/segment.go", "a segment is read under a name that is not of its content", asItWas,
			"	if subtle.ConstantTimeCompare(is[:], name[:]) == 0 {", "	if subtle.ConstantTimeCompare(is[:], name[:]) > 1 {",
			"TestOpenSegment_ChangedSwappedOrForeign_Refused"),
		in("pkg/archive/format/repository.go", "a client writes under a key that an attacker chose", onlyForReaders,
			"	if k.id != r.ID {", "	if false {",
			"TestUnlock_KeyOfAnother_Refused"),
		in("pkg/archive/format/repository.go", "settings are believed that somebody without a key wrote", asItWas,
			"	if !hmac.Equal(mac(key, r.signed), r.mac) {", "	if false && !hmac.Equal(mac(key, r.signed), r.mac) {",
			"TestUnlock_AnyChange_Refused"),
		in("pkg/archive/format/archive.go", "an archive is read whose maps do not cover its volumes", asItWas,
			"v.Size < 0 || int64(len(v.Segments)) != want {", "v.Size < 0 && int64(len(v.Segments)) != want {",
			"TestSeal_ArchiveThatContradictsItself_Refused"),
	}
}
