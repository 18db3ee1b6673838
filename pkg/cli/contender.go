package cli

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runner"
)

// disown gives a process that was refused the lock an id of its own: the run that it would have resumed may be alive,
// and is not what failed.
func disown(run *cluster.RunID, of *runner.Outcome) {
	if of.Journalled || len(of.Before) == 0 {
		return
	}
	if own, err := journal.NewRunID(time.Now()); err == nil {
		*run, of.Before = own, nil
	}
}
