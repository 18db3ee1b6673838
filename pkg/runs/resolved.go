package runs

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
)

// resolvedBy returns the resolve that finished the unfinished run: a later completed one of the same cluster and
// backup; "" if there is none, or the run is not an unfinished restore or resolve.
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

// elsewhere reports whether the runs are known to belong to different clusters of the same name.
func elsewhere(r, other *Run) bool {
	_, err := r.About.SameCluster(r.ID, &other.About)
	return err != nil
}

// markResolved marks the run as done if a resolve finished it.
func (r *Run) markResolved(all []Run) {
	if by := resolvedBy(r, all); by != "" {
		r.State, r.ResolvedBy, r.Step = Done, by, ""
	}
}
