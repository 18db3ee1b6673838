package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/runlock"
)

// lockWait is how long to watch another run's lock.
type lockWait time.Duration

// add is the same for every command that takes a cluster's lock.
func (w *lockWait) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar((*time.Duration)(w), "lock-wait", runlock.DefaultWait,
		"how long to watch another run's lock, which is taken over if it is not renewed for a minute; 0 refuses "+
			"at once")
}

func (w lockWait) validate() error {
	if w < 0 {
		return fmt.Errorf("--lock-wait %s: want a time, or 0 for none", time.Duration(w))
	}
	return nil
}

// limit converts to package runlock's convention.
func (w lockWait) limit() time.Duration {
	if w == 0 {
		return runlock.NoWait
	}
	return time.Duration(w)
}
