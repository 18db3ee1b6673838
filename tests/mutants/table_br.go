package mutants

func brGuards() []Mutant {
	return []Mutant{
		in("pkg/hold/observe_prove.go", "another process's hold is believed without its renewals", provenHold,
			"const beatsToProve = 2", "const beatsToProve = 0",
			"TestHold_StoreThatDoesNotAnswer_KeepsTheSafePointFromBeingRenewed"),
		in("pkg/hold/observe_prove.go", "a store may restart under another process's hold", provenHold,
			"!is.Equal(was) {", "false && !is.Equal(was) {",
			"TestObserve_StoreThatRestarted_IsNotProven"),
		in("pkg/hold/observe_prove.go", "regions may change under another process's hold", provenHold,
			"case before[i].ConfVer != now[i].ConfVer || before[i].Version != now[i].Version:", "case false:",
			"TestSameRegions_WhatChangedDuringTheCut_IsNamed"),
		in("pkg/hold/observe.go", "the hold of a process that is dead is found", provenHold,
			"} else if s.ExpiredAt.After(before.ExpiredAt) {", "} else if !s.ExpiredAt.Before(before.ExpiredAt) {",
			"TestObserve_HolderThatDied_IsNotFound"),
		in("pkg/catalog/br.go", "the lock of another run's prefix is removed", othersStay,
			"json.Unmarshal(body, &held) != nil || held.Run != run", "json.Unmarshal(body, &held) != nil",
			"TestLockForBR_OneRunHasThePrefix"),
		in("pkg/brcompat/volume_file.go", "a document of no stores is backed up", zeroIsAnError,
			"	case stores == 0:", "	case false:",
			"TestReadVolumeFile_DamagedObjects_AreRefused"),
		in("pkg/brcompat/volume_file.go", "a document of other numbers of stores is backed up", exactlyOnce,
			"case f.TiKV.Replicas != stores && f.TiKV.Replicas != stores+len(f.elsewhere):", "case false:",
			"TestReadVolumeFile_DamagedObjects_AreRefused"),
	}
}
