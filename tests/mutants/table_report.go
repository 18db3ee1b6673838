package mutants

func reportGuards() []Mutant {
	return []Mutant{
		in("pkg/exporter/guard.go", "another web site can have a browser read the page of this machine", nothingFromOutside,
			"	case !public && !loopbackName(r.Host):", "	case false:",
			"TestPage_IsReadOnlyAndGuarded"),
		in("pkg/cli/exporter.go", "the page is open to others, and nothing says so", nothingFromOutside,
			"	if public {\n", "	if false {\n",
			"TestExporter_BoundElsewhere_SaysSo"),
		in("pkg/report/text.go", "a name from a storage is markup in a report", nothingFromOutside,
			`"<", "&lt;", `, "",
			"TestRendered_HostileTexts_DoNothing"),
		in("pkg/report/text.go", "a link is made of a name from a storage", nothingFromOutside,
			`"[", "\\[", "]", "\\]", `, "",
			"TestRendered_HostileTexts_DoNothing"),
		in("pkg/metrics/label.go", "a name from a storage is a label of any length", nothingFromOutside,
			"	if len(value) <= maxLabel {", "	if true {",
			"TestLabels_HostileNames_AreCleanedAndCut"),
		in("pkg/runlock/record.go", "the note of a release takes the lock of a run", oneRun,
			"	if err == nil && r.Released {", "	if err == nil {",
			"TestNoteLetGo_OfAFreeLockAlone"),
	}
}
