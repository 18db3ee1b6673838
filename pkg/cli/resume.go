package cli

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// maxResumeAge is how long ago a backup may have written its journal last to be continued unasked: by then the next
// night's backup is wanted, and not that of the night before.
const maxResumeAge = 12 * time.Hour

// continued is the run that the command is of: the one that the user chose, or the cluster's last one if that is of the
// same request and not over, or a new one. Clusters of one name in several Kubernetes clusters may share a storage, and
// with it their lock: a run that is not proven to be of this one is continued only if it is chosen. It names the run's
// backup too, unless the run is new. A request without a backup's name takes that of the run.
func continued(
	ctx context.Context, store objstore.Store, log *zap.Logger, chosen string, request journal.About,
) (cluster.RunID, cluster.BackupID, error) {
	if chosen != "" {
		id, err := runID(chosen)
		if err != nil {
			return "", "", err
		}
		r, err := runs.Read(ctx, store, id)
		switch {
		case failure.Is(err, failure.NotFound):
			return id, "", nil
		case err != nil:
			return "", "", err
		}
		return id, r.Backup, nil
	}
	last, err := runs.Last(ctx, store, request.Cluster)
	if err != nil {
		return "", "", err
	}
	if last != nil {
		if request.Backup == "" {
			request.Backup = last.Backup
		}
		differs := last.About.SameRequest(last.ID, &request)
		if proven, _ := last.About.SameCluster(last.ID, &request); differs == nil && !proven {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID),
				"that it is of this cluster, and of no other one called %s, is not proven", request.Cluster).
				WithHint("continue it with --run-id %s, or undo it: tisnap runs abort %s", last.ID, last.ID)
		}
		if age := time.Since(last.Last); differs == nil && request.Operation == journal.Backup && age > maxResumeAge {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID), "it wrote its journal %s ago",
				age.Truncate(time.Minute)).
				WithHint("continue it with --run-id %s, or undo it: tisnap runs abort %s", last.ID, last.ID)
		}
		if differs == nil && last.History.Undoing() && last.History.Done(journal.StepSeal) {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID),
				"its backup is sealed, and it was being ended when its process died")
		}
		if differs == nil {
			return last.ID, last.Backup, nil
		}
		log.Warn("the last run of the cluster is not over, and is not continued", zap.String("run", string(last.ID)),
			zap.Error(differs))
	}
	id, err := journal.NewRunID(time.Now())
	return id, "", err
}

// kubernetesUID is by which a Kubernetes cluster is known from all others; "" if it may not be read.
func kubernetesUID(ctx context.Context, k kube.Identity, log *zap.Logger) string {
	uid, err := k.ClusterUID(ctx)
	if err != nil {
		log.Warn(
			"the uid of the Kubernetes cluster is not known: a run that died is continued only if --run-id names it",
			zap.Error(err))
	}
	return uid
}
