package cli

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// maxResumeAge is how long ago a backup may have written its journal last to be continued unasked: by then the next
// night's backup is wanted, and not that of the night before.
const maxResumeAge = 12 * time.Hour

// continued is the run that the command is of: the one that the user chose, or the cluster's last one if that is of the
// same request and not over, or a new one. It names the run's backup too, unless the run is new. A request without a
// backup's name takes that of the run.
func continued(ctx context.Context, store objstore.Store, log *zap.Logger, chosen string, request journal.About) (cluster.RunID, cluster.BackupID, error) {
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
		if age := time.Since(last.Last); differs == nil && request.Operation == journal.Backup && age > maxResumeAge {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID), "it wrote its journal %s ago", age.Truncate(time.Minute)).
				WithHint("continue it with --run-id %s, or undo it: tisnap runs abort %s", last.ID, last.ID)
		}
		if differs == nil && last.History.Undoing() && last.History.Done(journal.StepSeal) {
			differs = failure.New(failure.Conflict, "resume run", string(last.ID), "its backup is sealed, and it was being ended when its process died")
		}
		if differs == nil {
			return last.ID, last.Backup, nil
		}
		log.Warn("the last run of the cluster is not over, and is not continued", zap.String("run", string(last.ID)), zap.Error(differs))
	}
	id, err := journal.NewRunID(time.Now())
	return id, "", err
}
