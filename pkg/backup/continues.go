package backup

import (
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Continues reports whether Run with these options, for the cluster with this PD cluster id, resumes the journal's run
// from the cut that its dead process has proven: the request is the same, the run has not ended, nothing of it was
// undone, and the journal names no other cluster. No hold is needed then.
func Continues(h *phase.History, o Options, clusterID uint64) bool {
	if !h.Unfinished() || h.Undoing() || !h.Done(journal.StepRelease) {
		return false
	}
	o.defaults()
	was, err := journal.ReadAbout(o.Run, h.Records[0])
	about := o.about(clusterID)
	return err == nil && was.SameRequest(o.Run, &about) == nil
}
