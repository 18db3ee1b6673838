package brcompat

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
)

// pauseFlags are specific to `operator pause-gc-and-schedulers`.
type pauseFlags struct {
	TTL       time.Duration
	SafePoint uint64

	EarlyApply string
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
	earlyApplyFlag(fl, &f.EarlyApply)
	return cmd
}

// earlyApplyFlag is the flag of `tisnap backup`, with the same default.
func earlyApplyFlag(fl *pflag.FlagSet, into *string) {
	fl.StringVar(into, "early-apply", string(backup.PreventEarlyApply),
		"TiKV's early apply during the cut: prevent turns it off where possible, require fails where it is not: "+
			strings.Join(backup.EarlyApplyPolicies(), ", "))
}

// maxPause bounds how long a cluster is held, whatever the Operator does: as long as its job may run.
const maxPause = 10 * time.Minute

// pause holds the cluster until SIGTERM, releases it and succeeds. It fails at once when the hold breaks.
func (a *app) pause(ctx context.Context, f pauseFlags) error {
	policy, err := backup.ParseEarlyApplyPolicy(f.EarlyApply)
	if err != nil {
		return err
	}
	c, err := a.connect()
	if err != nil {
		return err
	}
	defer c.close()
	p, err := c.pd(ctx)
	if err != nil {
		return err
	}
	run, err := journal.NewRunID(time.Now())
	if err != nil {
		return err
	}
	hostname, _ := os.Hostname() // optional
	o := backup.PauseOptions{
		Cluster: a.common.target(), Run: run, Lease: f.TTL, MaxHold: cmp.Or(a.streams.MaxPause, maxPause),
		SafePoint: cluster.TS(f.SafePoint),
		Ready:     func() { a.printReady(run) }, Holder: hold.Here(os.Getenv, hostname), EarlyApply: policy,
	}
	a.log.Info("holding the cluster", zap.Stringer("cluster", o.Cluster), zap.String("run", string(run)),
		zap.Duration("ttl", f.TTL),
		zap.Duration("at-most", o.MaxHold))
	if err := backup.Pause(ctx, backup.PauseDeps{
		PD: p, TiKV: c.tikv(), EarlyApply: c.tikv(), Log: a.log.Logger, Remains: &a.left,
	}, o); err != nil {
		return err
	}
	a.log.print("GC and schedulers are resumed.")
	return nil
}

// printReady prints the lines that the Operator waits for: older versions for the first two, newer ones for the last.
func (a *app) printReady(run cluster.RunID) {
	for _, line := range []string{"Schedulers are paused.", "GC is paused.", "All ready."} {
		a.log.print(line, zap.String("run", string(run)))
	}
}
