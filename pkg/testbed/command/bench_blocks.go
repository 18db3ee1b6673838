package command

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/ebsdirect/ebsdirecttest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
)

// The stand-in's limits, in calls per second: AWS's default, and what others of the account leave of it.
const (
	blocksLimit = 1000.0
	blocksLess  = 600.0
)

func benchBlocksCommand() *cobra.Command {
	seconds, speed := 20.0, 0.15
	cmd := &cobra.Command{
		Use:   "bench-blocks",
		Short: "Measure reading and writing a snapshot's blocks against the limits of the EBS direct APIs, as JSON",
		Long: `Measure reading and writing a snapshot's blocks against the limits of the EBS direct APIs: the adapter that tisnap
ships against the stand-in, with AWS's default limits, and with a lower one that the adapter has to find. Time is
scaled; the figures are in AWS's seconds. The result goes to stdout as JSON and to stderr as a table, each figure
beside what it must reach. The exit status is 1 if one does not.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seconds < 1 || speed <= 0 || speed > 10 {
				return errors.New("want --seconds of at least 1, and --speed of more than 0 and at most 10")
			}
			d := time.Duration(seconds * float64(time.Second))
			return benchBlocks(cmd.Context(), d, speed, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().Float64Var(&seconds, "seconds", seconds, "of AWS's, for each measurement")
	cmd.Flags().Float64Var(&speed, "speed", speed, "AWS's seconds in one of this machine's; at 1 it has to move 500 MiB/s")
	return cmd
}

func benchBlocks(ctx context.Context, d time.Duration, speed float64, stdout, stderr io.Writer) error {
	if err := awsenv.Isolate(); err != nil {
		return err
	}
	result := benchResult{Kind: "BlocksBenchmark", Go: runtime.Version(), CPUs: runtime.GOMAXPROCS(0), Met: true}
	for _, m := range []struct {
		name  string
		limit float64
		run   func(*blocksBench, context.Context) error
	}{
		{"read", blocksLimit, (*blocksBench).read},
		{"written", blocksLimit, (*blocksBench).write},
		{"read, others use the account", blocksLess, (*blocksBench).read},
	} {
		found, err := measureBlocks(ctx, m.name, m.limit, d, speed, m.run)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		for _, f := range found {
			f = f.judged()
			fmt.Fprintln(stderr, f)
			result.Figures = append(result.Figures, f)
			result.Met = result.Met && f.Met
		}
	}
	out := json.NewEncoder(stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(result); err != nil {
		return err
	}
	if !result.Met {
		return errors.New("not all figures are what they must be")
	}
	return nil
}

// blocksBench is one account with a client of its own.
type blocksBench struct {
	server *ebstest.Server
	client *ebsdirect.Client
	clock  timescale.Clock
}

// measureBlocks lets run work for d of AWS's time, which it must end by its context, and looks at what the client did.
func measureBlocks(
	ctx context.Context, name string, limit float64, d time.Duration, speed float64,
	run func(*blocksBench, context.Context) error,
) ([]figure, error) {
	b := &blocksBench{clock: timescale.New(speed)}
	copied := ebstest.QuickRules()
	copied.SnapshotBase, copied.SnapshotRate = 0, 1<<50 // at once: it is not what is measured
	b.server = ebstest.New(ebstest.Config{Clock: b.clock, Rules: copied, Seed: 1})
	rules := ebsdirecttest.DefaultRules()
	rules.Latency = ebstest.Span{Least: 10 * time.Millisecond, Most: 50 * time.Millisecond}
	rules.Account["GetSnapshotBlock"], rules.Account["PutSnapshotBlock"] = limit, limit
	ebsdirecttest.New(b.server, ebsdirecttest.Config{Clock: b.clock, Rules: rules})
	if err := b.server.Start(); err != nil {
		return nil, err
	}
	defer b.server.Close()
	var err error
	b.client, err = ebsdirect.Open(ctx, ebsdirect.Config{Region: "us-west-2", Endpoint: b.server.URL(), Clock: b.clock})
	if err != nil {
		return nil, err
	}
	defer b.client.Close()
	start := b.clock.Now()
	limited, cancel := context.WithTimeout(ctx, b.clock.Real(d))
	defer cancel()
	if err := run(b, limited); err != nil && limited.Err() == nil {
		return nil, err
	}
	took, stats := b.clock.Now().Sub(start).Seconds(), b.client.Stats()
	calls := float64(stats.Reads + stats.Puts)
	return []figure{
		{
			Name: "blocks " + name, Value: (calls - float64(stats.Throttled)) / took, Unit: "blocks/s",
			AtLeast: 0.95 * limit, How: fmt.Sprintf("limit %g/s, %.0f s, latency 10 to 50 ms", limit, took),
		},
		{Name: "calls throttled, blocks " + name, Value: 100 * float64(stats.Throttled) / calls, Unit: "%", AtMost: 1},
	}, nil
}

// read reads a snapshot of 2,000 blocks again and again.
func (b *blocksBench) read(ctx context.Context) error {
	device := disk.New(1 << 30)
	for index := range int64(2000) {
		if _, err := device.WriteAt([]byte{byte(index)}, index*ebsdirect.BlockSize); err != nil {
			return err
		}
	}
	made, err := b.server.Writable(ebs.Snapshot{SizeGiB: 1}, "", b.clock.Now().Add(time.Hour))
	if err != nil {
		return err
	}
	b.server.Seal(made.ID, disk.Cut(device)[0])
	blocks := make(chan ebsdirect.Block)
	return b.inParallel(ctx, func(ctx context.Context) error {
		defer close(blocks)
		for {
			for block, err := range b.client.Blocks(ctx, made.ID, 0) {
				if err != nil {
					return err
				}
				select {
				case blocks <- block:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
	}, func(ctx context.Context, _ int) error {
		data := make([]byte, ebsdirect.BlockSize)
		for block := range blocks {
			if _, err := b.client.Read(ctx, block, data); err != nil {
				return err
			}
		}
		return nil
	})
}

// write puts a block for each call in flight again and again.
func (b *blocksBench) write(ctx context.Context) error {
	id, err := b.client.Start(ctx, ebsdirect.NewSnapshot{Token: rand.Text(), SizeGiB: 1})
	if err != nil {
		return err
	}
	data := make([]byte, ebsdirect.BlockSize)
	sum := ebsdirect.SumOf(data)
	return b.inParallel(ctx, nil, func(ctx context.Context, n int) error {
		for {
			if err := b.client.Put(ctx, id, int64(n), data, sum); err != nil {
				return err
			}
		}
	})
}

// inParallel runs feed, if there is one, and as many workers as may have a call in flight, and returns the first error.
func (b *blocksBench) inParallel(
	ctx context.Context, feed func(context.Context) error, work func(ctx context.Context, n int) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	note := func(err error) {
		if err != nil {
			cancel(err)
		}
	}
	if feed != nil {
		all.Go(func() { note(feed(ctx)) })
	}
	for n := range ebsdirect.MaxInFlight {
		all.Go(func() { note(work(ctx, n)) })
	}
	all.Wait()
	return context.Cause(ctx)
}
