package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/scale"
)

// benchHold is the output of bench-hold.
type benchHold struct {
	Kind    string        `json:"kind"`
	Seed    int64         `json:"seed"`
	Holds   []*scale.Hold `json:"holds"`
	Failing *failing      `json:"failing,omitempty"`
}

// failing is what a process keeps of runs that failed.
type failing struct {
	Runs   int            `json:"runs"`
	First  scale.Sample   `json:"first"`
	Last   scale.Sample   `json:"last"`
	Growth scale.Growth   `json:"growth"`
	All    []scale.Sample `json:"all"`
}

func benchHoldCommand() *cobra.Command {
	var stores []int
	var ways []string
	var regions, runs int
	var seed int64
	var tisnap string
	cmd := &cobra.Command{
		Use:   "bench-hold",
		Short: "Measure how long a backup holds clusters of 20, 100 and 300 stores",
		Long: `Measure how long a backup holds clusters of 20, 100 and 300 stores: EC2 answers CreateSnapshots in 0.8 to 2 s
and gives 100 tokens, then 5 a second. Then let one process fail again and again, each time in another part of the
hold, and count what it keeps. The result is JSON on stdout; what is missed makes the command fail.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := &benchHold{Kind: "BenchHold", Seed: seed}
			err := errors.Join(
				out.measure(cmd, tisnap, ways, stores, regions),
				out.fail(cmd.Context(), cmd.ErrOrStderr(), runs),
			)
			enc := json.NewEncoder(cmd.OutOrStdout())
			enc.SetIndent("", "  ")
			return errors.Join(err, enc.Encode(out))
		},
	}
	f := cmd.Flags()
	f.IntSliceVar(&stores, "stores", []int{20, 100, 300}, "sizes of the clusters")
	f.StringSliceVar(&ways, "via", []string{string(reach.Direct)}, "ways to PD and the stores, direct or port-forward: each cluster is held by each, and what the others add to the first is printed")
	f.IntVar(&regions, "regions", 100, "regions that each store leads")
	f.IntVar(&runs, "failing", 100, "runs in a row that fail; 0 makes none")
	f.Int64Var(&seed, "seed", 1, "seed of EC2's latencies")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	return cmd
}

func (b *benchHold) measure(cmd *cobra.Command, tisnap string, ways []string, stores []int, regions int) error {
	var errs []error
	for _, n := range stores {
		var first *scale.Hold
		for _, way := range ways {
			program := func(bed *testbed.Testbed) scale.Program {
				return scale.Program(binary(tisnap, io.Discard, cmd.ErrOrStderr())(bed))
			}
			h, err := b.hold(cmd.Context(), program, way, n, regions)
			if h == nil {
				errs = append(errs, fmt.Errorf("%d stores, %s: %w", n, way, err))
				continue
			}
			errs = append(errs, err)
			if first == nil {
				first = h
			} else {
				adds := h.Seconds - first.Seconds
				h.Adds = &adds
			}
			b.Holds = append(b.Holds, h)
		}
	}
	return errors.Join(errs...)
}

// hold measures one. It returns an error, too, if the hold was too long.
func (b *benchHold) hold(ctx context.Context, program func(*testbed.Testbed) scale.Program, way string, stores, regions int) (*scale.Hold, error) {
	via, err := reach.ParseVia(way)
	if err != nil {
		return nil, err
	}
	h, err := scale.MeasureHold(ctx, program, via, stores, regions, b.Seed)
	if err == nil && !h.Within {
		err = fmt.Errorf("%d stores, %s: held for %.2f s, more than %.2f s (%s)", stores, way, max(h.Seconds, h.Observed), h.Limit, h.By)
	}
	return h, err
}

// fail lets a process of its own, which has nothing of the stand-ins, fail again and again.
func (b *benchHold) fail(ctx context.Context, stderr io.Writer, runs int) error {
	if runs == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "tisnap-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	bed, plan, err := scale.StartSmall(ctx, dir)
	if err != nil {
		return err
	}
	defer bed.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "failing-runs") //nolint:gosec // this very program
	child.Env = append(os.Environ(), bed.Env()...)
	child.Stderr = stderr
	to, err := child.StdinPipe()
	if err != nil {
		return err
	}
	from, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	samples, err := scale.Fail(runs, bed.Nodes.Cluster(scale.Cluster()).Held, plan, to, from)
	err = errors.Join(err, to.Close(), child.Wait())
	if err != nil {
		return err
	}
	grown, err := scale.GrowthOf(samples)
	if err != nil {
		return err
	}
	b.Failing = &failing{Runs: runs, First: samples[0], Last: samples[len(samples)-1], Growth: grown, All: samples}
	return grown.Check()
}

// failingRunsCommand is the process that bench-hold lets fail: it runs tisnap's own command line for each line on
// stdin.
func failingRunsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "failing-runs", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return scale.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), func(ctx context.Context, n int) int {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return int(cli.Run(ctx, scale.FailingBackup(n), cli.Streams{Out: io.Discard, Err: io.Discard}, cli.Version{Version: "bench"}))
			})
		},
	}
}
