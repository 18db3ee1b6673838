package mutants

// marksGuards are those of what is a mark, and of what a restore takes for unchanged.
func marksGuards() []Mutant {
	const unchanged, each = "pkg/marks/unchanged.go", "TestUnchanged_EachConditionAlone_Refuses"
	const load, decides = "pkg/restore/marks.go", "TestLoadMarks_WhatDecides"
	const onePeer, notCompared = "TestUnchanged_WhatOnePeerSays_IsOfItsRegion", "TestScanRegion_NotTheOneThatWasCompared_HasChanged"
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
		in("pkg/resolve/find_unchanged.go", "a region with a lock passes for unchanged", takenBack,
			"err == nil && locked:", "err == nil && locked && false:", "TestMarks_DisturbedCluster_FlashbackChangesNothingAndNoLockStays"),
		in("pkg/resolve/plan/unchanged.go", "a follower's longer log of an older term is not seen", takenBack,
			"				log.Longest++", "				log.Longest += 0", onePeer),
		in("pkg/resolve/plan/unchanged.go", "peers that disagree about a region's version are not seen", takenBack,
			"Even: !uneven[l.Region],", "Even: !uneven[l.Region] || true,", onePeer),
		in("pkg/resolve/plan/unchanged.go", "marks are used although a store is left out", takenBack,
			"	if set.Len() == 0 || len(p.Lost) > 0 {", "	if set.Len() == 0 {", onePeer),
		in("pkg/resolve/candidates.go", "a region that another peer has come to lead passes for unchanged", takenBack,
			"	if !ok || v.leaders[i].Store != r.Leader.Store {", "	if !ok {", notCompared),
		in("pkg/resolve/candidates.go", "a region that another peer was asked to lead stays a candidate", takenBack,
			"		if _, moves := to[v.leaders[i].Region]; moves {", "		if _, moves := to[v.leaders[i].Region]; moves && false {", notCompared),
		in("pkg/resolve/candidates.go", "a region of another version passes for the one that was compared", takenBack,
			"l.Region == r.ID && l.Version == r.Version &&", "l.Region == r.ID &&", notCompared),
		in("pkg/resolve/check_unchanged.go", "--check-unchanged does not see that a row has changed", takenBack,
			"	if err == nil && after != before {", "	if err == nil && after != before && false {", "TestMarks"),
		in("pkg/resolve/stamp.go", "--flashback=all leaves out what an earlier run has found unchanged", takenBack,
			"	if r.cfg.FlashAll && saved.Unchanged > 0 {", "	if r.cfg.FlashAll && saved.Unchanged < 0 {", "TestMarks"),
		in(load, "--flashback=all uses marks", takenBack,
			"	case ref == nil || r.opts.Flashback == FlashbackAll:", "	case ref == nil:", decides),
		in(load, "marks count for a backup ts that they may be above", takenBack,
			"	case r.manifest.BackupTS < marks.After(ref.TS):", "	case r.manifest.BackupTS < ref.TS:", decides),
		in(load, "marks of a TiKV count whose reports are not known", takenBack,
			"	if v := r.manifest.Source.Version; !marks.Supported(v) {", "	if v := r.manifest.Source.Version; v == \"\" {", decides),
		in(load, "marks are compared with what a TiKV reports that is not known", takenBack,
			" && !marks.Supported(st.Version) {", " && st.Version == \"\" {", decides),
		in(load, "fewer marks are used than were sealed", takenBack,
			"	if err == nil && set.Len() != ref.Regions {", "	if err == nil && set.Len() > ref.Regions {", decides),
		in("pkg/manifest/marks.go", "marks are used that are not those of the sealed manifest", sealedIsWhole,
			"	if d := digest(body); d != m.SHA256 {", "	if d := digest(body); d != m.SHA256 && false {",
			"TestMarks_OtherBytesThanSealed_AreCorrupt"),
	}
}

// markReadingGuards are those of a backup's reading of marks.
func markReadingGuards() []Mutant {
	const read = "pkg/backup/marks.go"
	const notKnown, notProven = "TestRun_TiKVThatIsNotKnown_HasNoMarks", "TestRun_ProcessThatShowedItsLog_IsNotProvenToBeTheOneThatWasCut"
	return []Mutant{
		in(read, "marks count of a store that has restarted since", takenBack,
			"		if at.IsZero() || !now[id].Equal(at) {", "		if at.IsZero() || now[id].IsZero() {", "TestRun_StoreRestartsAfterItsMarks_TheyAreDropped"),
		in(read, "marks count of a store of which PD does not know when it started", takenBack,
			"		if at.IsZero() || !now", "		if !now", notProven),
		in(read, "marks count of a store that PD does not list any more", takenBack,
			" || !now[id].Equal(at) {", " || !now[id].IsZero() && !now[id].Equal(at) {", notProven),
		in(read, "the marks' timestamp is older than the last of them", takenBack,
			"ts: now, started: started", "ts: cluster.MakeTS(now.Time().Add(-time.Second), 0), started: started",
			"TestRun_MarksTS_IsTakenAfterTheLastMark"),
		in(read, "the hold begins before the resolved ts has passed the marks by their margin", takenBack,
			"		if err == nil && got.TS >= marks.After(ts) {", "		if err == nil && got.TS > 0 {", "TestRun_MarksAreAhead_HoldWaitsForTheResolvedTS"),
		in(read, "a resolved ts within the hold may be below that of the marks", takenBack,
			"	r.highestTS = max(r.highestTS, marks.After(got.ts))\n", "", "TestRun_ResolvedTSGoesBackBelowTheMarks_BackupTSIsAboveThem"),
		in(read, "marks are read in a cluster whose reports are not known", takenBack,
			"!marks.Supported(v) {", "v == \"\" {", notKnown),
		in(read, "marks are read from a store whose reports are not known", takenBack,
			"!marks.Supported(st.Version) {", "!marks.Supported(st.Version) && false {", notKnown),
	}
}
