package hold

// Die ends the hold as a kill of its process does: nothing is released and nothing renewed.
func (h *Hold) Die() {
	h.stopGuard()
	h.stopKeeper()
}

// SameRegions is what Prove compares the regions before and after the cut by.
var SameRegions = sameRegions
