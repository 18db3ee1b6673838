package mutants

func marksGuards() []Mutant {
	const unchanged, each = "pkg/marks/unchanged.go", "TestUnchanged_EachConditionAlone_Refuses"
	return []Mutant{
		in(unchanged, "a region of another id or version passes for the mark's", takenBack,
			"	return m.Region == l.Region && m.Version == l.Version && l.Even &&", "	return l.Even &&", each),
		in(unchanged, "the peers of a region may disagree about its version", takenBack,
			"m.Version == l.Version && l.Even &&", "m.Version == l.Version &&", each),
		in(unchanged, "a peer may have more log than the mark", takenBack,
			"		l.Longest <= m.Index &&\n", "", each),
		in(unchanged, "a later leader may have written the same number of entries", takenBack,
			"		l.Term <= m.Term &&\n", "", each),
		in(unchanged, "the planned leader may lack entries of the mark", takenBack,
			"		l.Index == m.Index", "		l.Index <= m.Index", each),
		in(unchanged, "a log whose end is not committed gets a mark", takenBack,
			" || state.Commit != state.Last {", " {", "TestOf_WhatIsNotSettled_HasNoMark"),
		in(unchanged, "a region that merges, or changes its members, gets a mark", takenBack,
			"	if !state.Settled || ", "	if ", "TestOf_WhatIsNotSettled_HasNoMark"),
		in(unchanged, "a region that PD knows no leader of gets a mark", takenBack,
			"	if region.Leader.Store == 0 || region.Joint {", "	if region.Joint {", "TestOf_WhatIsNotSettled_HasNoMark"),
		in(unchanged, "a region that PD has in a joint state gets a mark", takenBack,
			"	if region.Leader.Store == 0 || region.Joint {", "	if region.Leader.Store == 0 {", "TestOf_WhatIsNotSettled_HasNoMark"),
		in("pkg/tikv/raft_state.go", "a joint state of the store's own is settled", takenBack,
			"	for _, p := range local.GetRegion().GetPeers() {\n", "	for _, p := range local.GetRegion().GetPeers()[:0] {\n",
			"TestSettled_OnlyAnOrdinaryMember"),
		in("pkg/backup/marks.go", "marks count of a store that has restarted since", takenBack,
			"		if at.IsZero() || !now[id].Equal(at) {", "		if at.IsZero() || now[id].IsZero() {", "TestRun_StoreRestartsAfterItsMarks_TheyAreDropped"),
		in("pkg/resolve/find_unchanged.go", "a region with a lock passes for unchanged", takenBack,
			"err == nil && locked:", "err == nil && locked && false:", "TestMarks_DisturbedCluster_FlashbackChangesNothingAndNoLockStays"),
		in("pkg/manifest/marks.go", "marks are used that are not those of the sealed manifest", sealedIsWhole,
			"	if d := digest(body); d != m.SHA256 {", "	if d := digest(body); d != m.SHA256 && false {",
			"TestMarks_OtherBytesThanSealed_AreCorrupt"),
	}
}
