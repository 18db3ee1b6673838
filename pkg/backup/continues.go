package backup

import (
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Continues reports whether Run with these options, of the cluster with this id of PD's, continues the run whose
// journal this is with the cut that its dead process has proven: it is of the same request, is not over, nothing of it
// was undone, and the journal names no other cluster. The hold is not needed any more.
func Continues(h *phase.History, o Options, clusterID uint64) bool {
	if !h.Unfinished() || h.Undoing() || !h.Done(journal.StepRelease) {
		return false
	}
	o.defaults()
	was, err := journal.ReadAbout(o.Run, h.Records[0])
	r := newRun(Deps{}, o)
	r.source.clusterID = clusterID
	about := r.about()
	return err == nil && was.SameRequest(o.Run, &about) == nil
}
