package runs

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
)

// resolvedBy is the resolve that finished what the run left unfinished: a later one of the same cluster and backup that
// is done; "" if there is none, or the run is not a restore or resolve without an end.
func resolvedBy(r *Run, all []Run) cluster.RunID {
	if r.State != Unfinished || r.Operation != journal.Restore && r.Operation != journal.Resolve {
		return ""
	}
	for i := range all {
		other := &all[i]
		if other.Operation == journal.Resolve && other.State == Done && other.ID != r.ID &&
			other.Cluster == r.Cluster && other.Backup == r.Backup && other.Started.After(r.Started) &&
			!elsewhere(r, other) {
			return other.ID
		}
	}
	return ""
}

// elsewhere reports whether the runs are known to be of two clusters of one name.
func elsewhere(r, other *Run) bool {
	_, err := r.About.SameCluster(r.ID, &other.About)
	return err != nil
}

// settle marks a run done that a resolve has finished.
func (r *Run) settle(all []Run) {
	if by := resolvedBy(r, all); by != "" {
		r.State, r.ResolvedBy, r.Step = Done, by, ""
	}
}
