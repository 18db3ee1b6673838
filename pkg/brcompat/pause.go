package brcompat

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/failure"
)

// pauseFlags are those of `operator pause-gc-and-schedulers` alone.
type pauseFlags struct {
	TTL       time.Duration
	SafePoint uint64
}

func (a *app) pauseCommand() *cobra.Command {
	var f pauseFlags
	cmd := &cobra.Command{
		Use:     "pause-gc-and-schedulers",
		Aliases: []string{"prepare-for-snapshot-backup"},
		Short:   "Hold a cluster until SIGTERM, for a backup by another process",
		Args:    a.noCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.pause(cmd.Context(), f) },
	}
	fl := cmd.Flags()
	fl.DurationVarP(&f.TTL, "ttl", "i", 2*time.Minute, "how long the cluster stays held if this process dies")
	fl.Uint64VarP(&f.SafePoint, "safepoint", "t", 0, "hold GC at this timestamp; 0 is the resolved ts")
	return cmd
}

func (a *app) pause(context.Context, pauseFlags) error {
	return failure.New(failure.Unready, "pause", "", "not supported yet")
}
