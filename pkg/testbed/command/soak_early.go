package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// corrupt is the exit code of a restore that refuses replicas ahead of the logs.
const corrupt = 10

// earlySoak is a soak of backups while raft logs stall.
type earlySoak struct {
	seeds
	mode   string // of all backups; "" is prevent for even seeds and ignore for odd ones
	wanted int

	ahead, affected, best, refused, right int
}

func soakEarlyCommand() *cobra.Command {
	s := &earlySoak{}
	cmd := &cobra.Command{
		Use:   "soak-early",
		Short: "Make backups while raft logs stall, with early apply prevented or not, and prove what restores make of them",
		Long: `Make backups while the raft logs of some stores take no writes for 1 to 20 s between the cuts, of even
seeds with early apply prevented and of odd ones not, in half of both with splits and moves of leaders. What
the snapshots hold is read from their bytes: of a backup that has prevented it no replica may be ahead of its
log. A restore has to name every replica that is ahead of its region's best log and refuse, or to end with
every row and every store's own data right.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.each(cmd, s.one); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d replicas were ahead, %d of them of every log, %d with the best log; %d restores refused them by name, %d were right\n",
				&s.seeds, s.ahead, s.affected, s.best, s.refused, s.right)
			if s.affected < s.wanted {
				return fmt.Errorf("%d replicas were ahead of every log, and %d are asked for: these runs proved nothing of them", s.affected, s.wanted)
			}
			return nil
		},
	}
	s.flags(cmd, 20, 3*time.Minute)
	f := cmd.Flags()
	f.StringVar(&s.mode, "early-apply", "", "the backups' --early-apply: prevent or ignore (default: by the seed)")
	f.IntVar(&s.wanted, "min-affected", 0, "fail if fewer replicas were ahead of every log in all")
	return cmd
}

func (s *earlySoak) one(ctx context.Context, seed int64, out, errs io.Writer) error {
	mode := s.mode
	if mode == "" {
		mode = []string{"prevent", "ignore"}[seed%2]
	}
	var log bytes.Buffer
	text, err := s.run(ctx, seed, mode, &log)
	if err != nil {
		fmt.Fprintln(errs, log.String())
		return fmt.Errorf("seed %d (%s): %w\n%s", seed, mode, err, text)
	}
	fmt.Fprintf(out, "seed %d (%s): %s\n", seed, mode, text)
	return nil
}

// run makes one backup, reads what it holds, restores it, and judges the end.
func (s *earlySoak) run(ctx context.Context, seed int64, mode string, log *bytes.Buffer) (string, error) {
	dir, err := os.MkdirTemp("", "tisnap-soak-early-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	program := binary(s.tisnap, log, log)
	from, err := round.Prepare(ctx, earlyConfig(dir, seed, mode, program))
	if err != nil {
		return "", fmt.Errorf("prepare: %w", err)
	}
	defer from.Close()
	held, err := from.Ahead(ctx)
	if err != nil {
		return from.LogTrouble(), fmt.Errorf("read snapshots: %w", err)
	}
	text := fmt.Sprintf("%s; %d replicas ahead, %d affected, %d with the best log (%s)",
		from.LogTrouble(), held.Ahead, len(held.Affected), held.Best, held.State)
	if held.Ahead > 0 && (mode == "prevent" || held.State == manifest.EarlyApplyExcluded) {
		return text, errors.New("replicas are ahead in a backup that prevented it")
	}
	begin := log.Len()
	code, err := program(from.Bed())(ctx, []string{
		"restore", round.BackupID, "--to", round.Target().String(), "--storage", round.Storage, "--timeout", "30s", "--progress", "plain",
	}, nil)
	if err == nil {
		err = judgeEarly(held, code, log.String()[begin:])
	}
	if err == nil && code == 0 {
		if _, err = from.Bed().AwaitCluster(ctx, round.Target()); err == nil {
			err = from.Verify(ctx, round.Target())
		}
	}
	if err != nil {
		return text, err
	}
	s.ahead, s.affected, s.best = s.ahead+held.Ahead, s.affected+len(held.Affected), s.best+held.Best
	if code == corrupt {
		s.refused++
		return text + "; refused, and all are named", nil
	}
	s.right++
	return text + "; restored right", nil
}

func earlyConfig(dir string, seed int64, mode string, program func(*testbed.Testbed) round.Tisnap) round.Config {
	return round.Config{
		Dir: dir, Seed: seed, Scale: 20, Faults: &fault.Plan{}, LogTrouble: true, Still: seed%4 < 2, Accounts: 300, Regions: 12, Clients: 4,
		Warm: 150 * time.Millisecond, Tisnap: program, BackupFlags: []string{"--early-apply", mode, "--progress", "plain"},
		PD: pdtest.Config{CoordinatorDelay: 300 * time.Millisecond},
		// Cuts that are far enough apart for a leader to get ahead, and data that reach their volume between them.
		Rules: func(r *ebstest.Rules) { r.Latency["CreateSnapshots"] = ebstest.Span{Most: 16 * time.Second} },
		TiKV: func(o *tikvtest.Options) {
			o.FlushInterval, o.TickInterval, o.RecoverCheckInterval = 30*time.Millisecond, 40*time.Millisecond, 300*time.Millisecond
			o.StoreHeartbeatInterval, o.RegionHeartbeatInterval = 200*time.Millisecond, 500*time.Millisecond
		},
	}
}

// judgeEarly judges how a restore ended: one that refuses has to name what is ahead of every log, and nothing else.
func judgeEarly(held *round.Ahead, code int, output string) error {
	switch {
	case code == 0:
		return nil // each store's own data will show
	case code != corrupt:
		return fmt.Errorf("the restore ended with %d", code)
	case len(held.Affected) == 0:
		return errors.New("the restore refused a backup without a replica that is ahead")
	}
	named := 0
	for _, r := range held.Affected {
		if strings.Contains(output, r.String()+",") {
			named++
		}
	}
	partly := strings.Contains(output, "every replica has data") || strings.Contains(output, "a replica is missing")
	if want := min(len(held.Affected), failure.MaxListed); named < want && !(partly && named > 0) {
		return fmt.Errorf("the restore named %d of the %d replicas that are ahead: %v", named, want, held.Affected)
	}
	if count := fmt.Sprintf("%d replicas have data", len(held.Affected)); !partly && !strings.Contains(output, count) {
		return fmt.Errorf("the restore did not print %q", count)
	}
	return nil
}
