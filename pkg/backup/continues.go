package backup

import (
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Continues reports whether Run with these options continues the run whose journal this is with the cut that its dead
// process has proven: it is of the same request, is not over, and nothing of it was undone. The hold is not needed any more.
func Continues(h *phase.History, o Options) bool {
	if !h.Unfinished() || h.Undoing() || !h.Done(journal.StepRelease) {
		return false
	}
	o.defaults()
	was, err := journal.ReadAbout(o.Run, h.Records[0])
	about := newRun(Deps{}, o).about()
	return err == nil && was.SameRequest(o.Run, &about) == nil
}
