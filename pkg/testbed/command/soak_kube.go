package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func soakKubeCommand() *cobra.Command {
	s := &kubeSoak{}
	cmd := &cobra.Command{
		Use:   "soak-kube",
		Short: "Make backups and restores while the API server of Kubernetes fails at random calls",
		Long: `Make backups of a cluster under load, and restores of them, while the API server of Kubernetes fails at random
calls: it answers 401, 403 for a second, 409, 429 with and without Retry-After, 500; loses or cuts an answer; shows a stale
list; is killed and started again; takes another token from now on. A backup either is sealed or reports what failed and leaves
nothing held and no snapshot; a restore either serves or reports what failed. What failed is run again without trouble, by
the same command or the one that it names, and has to be done then. At the end every row is checked, and EC2 has what
is named and nothing else.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := s.each(cmd, s.one)
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %d runs done the first time, %d failed with a clear error and were done the second time",
				&s.seeds, s.once.Load(), s.second.Load())
			if err == nil {
				fmt.Fprint(cmd.OutOrStdout(), "; every row right, nothing left")
			}
			fmt.Fprintln(cmd.OutOrStdout())
			return err
		},
	}
	s.flags(cmd, 50, 5*time.Minute)
	s.operator.flag(cmd)
	cmd.Flags().IntVar(&s.atOnce, "at-once", 4, "rounds at the same time, each of a cluster of its own")
	return cmd
}

// kubeSoak is a soak under way.
type kubeSoak struct {
	seeds
	operator     operator
	once, second atomic.Int64
}

func (s *kubeSoak) one(ctx context.Context, seed int64, out, errs io.Writer) error {
	dir, err := os.MkdirTemp("", "tisnap-soak-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // kubeconfigs of servers that are gone
	d := newKubeVictim(s.tisnap, dir, seed)
	defer d.close()
	r, err := round.Run(ctx, round.Config{
		Dir: dir, Seed: seed, Scale: soakScale, Faults: &fault.Plan{}, Accounts: 300, Regions: 8, Clients: 2, Driver: d,
		Operator: int(s.operator),
		TiKV: func(o *tikvtest.Options) {
			o.RecoverCheckInterval, o.TickInterval = 200*time.Millisecond, 40*time.Millisecond
		},
	})
	if err != nil {
		fmt.Fprintln(errs, d.output.String())
		return fmt.Errorf("%s: %w", strings.Join(d.met, "; "), err)
	}
	s.once.Add(int64(2 - d.failed))
	s.second.Add(int64(d.failed))
	fmt.Fprintf(out, "seed %d: %s; %d rows restored right\n", seed, strings.Join(d.met, "; "), r.Rows)
	return nil
}
