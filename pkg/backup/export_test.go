package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// LastCut is when another run of the cluster last dealt with its snapshots.
func LastCut(ctx context.Context, store objstore.Store, name cluster.Name, self cluster.RunID, since time.Time) (time.Time, error) {
	return lastCut(ctx, store, name, self, since)
}

// StepNames lists the runbook's steps, for tables that a new step joins by itself.
func StepNames() []string {
	var opts Options
	opts.defaults()
	var names []string
	for _, s := range newRun(Deps{}, opts).steps() {
		names = append(names, s.Name)
	}
	return names
}

// UndoEarlyWithin shortens the attempts to put early apply back, for all tests: it is called before they run.
func UndoEarlyWithin(d time.Duration) { undoEarlyLimit = d }
