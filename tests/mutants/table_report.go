package mutants

func reportGuards() []Mutant {
	return []Mutant{
		in("pkg/exporter/guard.go", "another web site can have a browser read the page of this machine", nothingFromOutside,
			"	case !public && !loopbackName(r.Host):", "	case false:",
			"TestPage_IsReadOnlyAndGuarded"),
		in("pkg/cli/exporter.go", "the page is open to others, and nothing says so", nothingFromOutside,
			"	if public {\n", "	if false {\n",
			"TestExporter_BoundElsewhere_SaysSo"),
		in("pkg/exporter/guard.go", "the page takes requests that are to change something", nothingFromOutside,
			"	case r.Method != http.MethodGet && r.Method != http.MethodHead:", "	case false:",
			"TestPage_IsReadOnlyAndGuarded"),
		in("pkg/cli/exporter.go", "the page is open to every machine unless somebody says otherwise", nothingFromOutside,
			`"listen", "127.0.0.1:9090"`, `"listen", ":9090"`,
			"TestExporter_NoListen_IsForThisMachineAlone"),
		in("pkg/cli/announce.go", "a notification that cannot be sent decides how the run ends", nothingFromOutside,
			"		a.warn(notify.Send(ctx, f.notify, summaryOf(cmd, end, err, code)))",
			"		if err := notify.Send(ctx, f.notify, summaryOf(cmd, end, err, code)); err != nil {\n			panic(err)\n		}",
			"TestAnnounce_ReceiverThatFails_ExitCodeStays"),
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
