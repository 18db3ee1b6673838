package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

type serveFlags struct {
	dir, cluster            string
	stores, accounts, nodes int
	regions, clients        int
	scale                   float64
	faults                  []string
	forTime                 time.Duration
	operator                operator
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a testbed with a cluster under load until Ctrl-C",
		Long: `Serve a testbed with a cluster under load until Ctrl-C, and print what tisnap needs in its environment.

Faults are given as POSITION:POINT[:CODE][@N][xTIMES], for example
  --fault before:ec2.CreateSnapshots:RequestLimitExceeded      refused, once
  --fault after:ec2.CreateSnapshots                            done, but the answer is lost
  --fault stall:tikv.1.RecoverRegion                           no answer
  --fault before:pd.PauseScheduler@2x3                         the 2nd to the 4th call

KMS has the keys alias/aws/ebs and ` + servedKey + `, and no other.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return serve(cmd.Context(), cmd.OutOrStdout(), f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.dir, "dir", "", "folder for the kubeconfig (default: a temporary one)")
	fl.StringVar(&f.cluster, "cluster", "tidb/prod", "cluster to make; empty makes none")
	fl.IntVar(&f.stores, "stores", 3, "TiKV stores")
	f.operator.flag(cmd)
	fl.IntVar(&f.nodes, "nodes", 6, "nodes of the Kubernetes cluster")
	fl.IntVar(&f.accounts, "accounts", 10_000, "accounts of the transfers; 0 makes no load")
	fl.IntVar(&f.regions, "regions", 60, "regions that the accounts are split into")
	fl.IntVar(&f.clients, "clients", 4, "clients that move money at the same time")
	fl.Float64Var(&f.scale, "scale", 1, "how many times as fast EC2's and the Operator's time runs, and a store's own waits pass")
	fl.StringArrayVar(&f.faults, "fault", nil, "a fault to inject; may be repeated")
	fl.DurationVar(&f.forTime, "for", 0, "stop after this time; 0 does not")
	return cmd
}

// servedKey is a KMS key to encrypt a restore's volumes with; a dry run refuses any other.
const servedKey = "alias/testbed"

func serve(ctx context.Context, out io.Writer, f serveFlags) error {
	if f.forTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.forTime)
		defer cancel()
	}
	plan := &fault.Plan{}
	for _, text := range f.faults {
		rule, err := fault.Parse(text)
		if err != nil {
			return err
		}
		if err := plan.Add(rule); err != nil {
			return err
		}
	}
	debug.SetGCPercent(servedGCPercent)
	debug.SetMemoryLimit(servedMemory)
	if f.dir == "" {
		dir, err := os.MkdirTemp("", "tisnap-testbed-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
		f.dir = dir
	}
	cfg := f.config(plan)
	cfg.Operator, cfg.PodStart, cfg.Resync = int(f.operator), testbed.RealPodStart, testbed.RealResync
	bed, err := testbed.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return err
	}
	defer bed.Close()
	usable := func() {
		fmt.Fprintf(out, "export %s TISNAP_STORAGE=s3://%s/demo\n", strings.Join(bed.Env(), " "), testbed.Bucket)
	}
	if f.cluster == "" {
		usable()
		<-ctx.Done()
		return nil
	}
	return serveCluster(ctx, out, bed, f, usable)
}

// config is what is served, except for how long the Operator takes.
func (f *serveFlags) config(plan *fault.Plan) testbed.Config {
	return testbed.Config{
		Dir: f.dir, Nodes: f.nodes, Scale: f.scale, TiKVScale: f.scale, Seed: time.Now().UnixNano(), Faults: plan,
		Keys: []string{servedKey}, TiKV: tikvtest.Options{LogKeep: servedLogKeep, CheckpointBytes: servedLogBytes},
	}
}

// What is served stays for hours, and so do the clusters that are restored from it. The stores keep short logs, and the
// process collects its own garbage early, so that ten clusters fit into 500 MB.
const (
	servedLogKeep   = 8         // entries of each region's raft log
	servedLogBytes  = 256 << 10 // of a device's log that is not worth rewriting
	servedGCPercent = 25        // of garbage above what is alive
	servedMemory    = 360 << 20 // above it garbage is collected all the time; the program itself is not counted
)

// serveCluster makes the cluster, reports when it is usable, and keeps transfers going until ctx ends.
func serveCluster(ctx context.Context, out io.Writer, bed *testbed.Testbed, f serveFlags, usable func()) error {
	fmt.Fprintf(out, "# cluster %s is starting\n", f.cluster)
	name, err := cluster.ParseName(f.cluster, "tidb")
	if err != nil {
		return err
	}
	c, err := bed.CreateCluster(ctx, name, f.stores)
	if err != nil {
		return err
	}
	if f.accounts == 0 {
		usable()
		fmt.Fprintf(out, "# cluster %s is up without load; Ctrl-C ends it\n", name)
		<-ctx.Done()
		return nil
	}
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: f.accounts, Regions: f.regions, Clients: f.clients})
	if err != nil {
		return err
	}
	defer func() { _ = load.Close() }() // the process ends
	if err := load.Load(ctx); err != nil {
		return err
	}
	usable()
	fmt.Fprintf(out, "# cluster %s is up with %d accounts; transfers run until Ctrl-C\n", name, f.accounts)
	var wg sync.WaitGroup
	var runErr, churnErr error
	wg.Go(func() { runErr = load.Run(ctx) })
	wg.Go(func() { churnErr = load.Churn(ctx) })
	wg.Go(func() { collectGarbage(ctx, c, load) })
	wg.Wait()
	if runErr != nil {
		return runErr
	}
	return churnErr
}

// Garbage collection of a served cluster: what is older than gcLifeTime is dropped each gcInterval, so that serving
// for hours takes no more memory than serving for a minute.
const (
	gcInterval = 5 * time.Second
	gcLifeTime = 30 * time.Second
)

// collectGarbage drops old versions in the stores and in the history of the transfers, which nothing verifies here.
func collectGarbage(ctx context.Context, c *testbed.Cluster, load *workload.Workload) {
	for wait.For(ctx, gcInterval) == nil {
		_ = dropOlder(ctx, c, load, gcLifeTime) // refused by a PD that is being restarted: it is tried again
	}
}

// dropOlder drops what is older than this.
func dropOlder(ctx context.Context, c *testbed.Cluster, load *workload.Workload, than time.Duration) error {
	db, err := load.Cluster(ctx)
	if err != nil {
		return err
	}
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
	old := cluster.MakeTS(now.Time().Add(-than), 0)
	load.History().Forget(old)
	_, err = c.CollectGarbage(ctx, old)
	return err
}
