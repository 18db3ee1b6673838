package hold

// Die ends the hold as a kill of its process does: nothing is let go and nothing renewed.
func (h *Hold) Die() {
	h.stopGuard()
	h.stopKeeper()
}
