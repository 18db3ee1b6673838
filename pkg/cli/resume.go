package cli

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// maxResumeAge is how old a backup's last journal record may be for the backup to be resumed without --run-id: after
// that a new backup is wanted, not last night's.
const maxResumeAge = 12 * time.Hour

// continued returns the command's run: the one that the user chose, or the cluster's last one if it made the same
// request and has not ended, or a new one. Clusters of one name in several Kubernetes clusters may share a storage, and
// with it their lock: a run not proven to belong to this cluster is resumed only if chosen. It also returns the run's
// backup, unless the run is new. A request without a backup name takes the run's.
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
	last, err := runs.Last(ctx, store, request.Lock())
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
				"it may belong to another cluster called %s", request.Cluster).
				WithHint("resume it with --run-id %s, or undo it: tisnap runs abort %s", last.ID, last.ID)
		}
		if age := time.Since(last.Last); differs == nil && request.Operation == journal.Backup && age > maxResumeAge {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID), "it wrote its journal %s ago",
				age.Truncate(time.Minute)).
				WithHint("resume it with --run-id %s, or undo it: tisnap runs abort %s", last.ID, last.ID)
		}
		if differs == nil && last.History.Undoing() && last.History.Done(journal.StepSeal) {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID),
				"its backup is sealed, and its process died while finishing")
		}
		if differs == nil {
			return last.ID, last.Backup, nil
		}
		log.Warn("the cluster's last run is unfinished and is not resumed", zap.String("run", string(last.ID)),
			zap.Error(differs))
	}
	id, err := journal.NewRunID(time.Now())
	return id, "", err
}

// stillChosen returns the request's backup, or that of the run that chosenEarlier returns, and notes it. named is the
// run that the user named; "" if none.
func (a *app) stillChosen(
	ctx context.Context, store objstore.Store, named string, request journal.About,
) (cluster.BackupID, error) {
	earlier, err := chosenEarlier(ctx, store, request)
	if err != nil || earlier == nil || named != "" && named != string(earlier.ID) {
		return request.Backup, err
	}
	a.note(fmt.Sprintf("run %s is not finished: continuing with the backup that was the latest when it began, %s",
		earlier.ID, oneLine(earlier.Backup)))
	return earlier.Backup, nil
}

// chosenEarlier returns the unfinished run that the same command began when its reference meant another
// backup, such as latest before a newer one was sealed; nil if there is none.
func chosenEarlier(ctx context.Context, store objstore.Store, request journal.About) (*runs.Run, error) {
	if request.Chosen == "" {
		return nil, nil
	}
	last, err := runs.Last(ctx, store, request.Lock())
	if err != nil || last == nil || last.About.Chosen != request.Chosen || last.Backup == request.Backup {
		return nil, err
	}
	request.Backup = last.Backup
	proven, differs := last.About.SameCluster(last.ID, &request)
	if differs == nil && proven && last.About.SameRequest(last.ID, &request) == nil {
		return last, nil
	}
	return nil, nil // its backup is not this command's
}

// kubernetesUID returns the Kubernetes cluster's unique id; "" if reading it is not permitted.
func kubernetesUID(ctx context.Context, k kube.Identity, log *zap.Logger) string {
	uid, err := k.ClusterUID(ctx)
	if err != nil {
		log.Warn(
			"cannot read the Kubernetes cluster's uid: a dead run is resumed only if --run-id names it",
			zap.Error(err))
	}
	return uid
}
