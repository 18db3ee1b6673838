package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// identify finds out which cluster of its name this is: no other's cut may be adopted, and none of its snapshots
// deleted.
func (o *source) identify(ctx context.Context) (err error) {
	o.clusterID, err = o.pd.ClusterID(ctx)
	return failure.Annotate(err, "read cluster id", o.opts.Cluster.String())
}

// sameCluster is a Conflict, before anything is adopted or undone, if the run whose journal this is was known to be of
// another cluster of the same name than mine. Older versions noted the cluster only with the proof of its cut.
func sameCluster(run cluster.RunID, h *phase.History, was *journal.About, mine journal.About) error {
	if was.ClusterID == 0 {
		was.ClusterID = journal.ReadFacts(h.Records).Backup.ProvenOf
	}
	_, err := was.SameCluster(run, &mine)
	return err
}
