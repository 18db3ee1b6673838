package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// identify finds out which cluster of its name this is: no other's cut may be adopted, and none of its snapshots deleted.
func (r *run) identify(ctx context.Context) (err error) {
	r.clusterID, err = r.PD.ClusterID(ctx)
	return failure.Annotate(err, "read cluster id", r.opts.Cluster.String())
}

// sameCluster is a Conflict, before anything is adopted or undone, if a run is known to be of another cluster of the same
// name. Older versions noted the cluster only with the proof of its cut.
func (r *run) sameCluster(h *phase.History, was *journal.About) error {
	if was.ClusterID == 0 {
		was.ClusterID = journal.ReadFacts(h.Records).Backup.ProvenOf
	}
	mine := r.about()
	_, err := was.SameCluster(r.opts.Run, &mine)
	return err
}
