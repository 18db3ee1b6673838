package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// The demo is to end within half a minute: it collects garbage rarely, and waits for EC2's model less than a user would.
const (
	demoGCPercent = 400
	demoMemory    = 1 << 30 // above it garbage is collected all the time
	demoScale     = 3       // how many times as fast EC2's and the Operator's time runs
)

func demoCommand() *cobra.Command {
	var accounts, regions, clients, hot int
	var seed int64
	var tisnap, controlPlane, roles string
	var volume cluster.VolumeSpec
	var generation operator
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Back up a running cluster, destroy it, restore it, and prove every row",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if seed == 0 {
				seed = time.Now().UnixNano() % 1_000_000
			}
			cfg := round.Config{
				Tisnap: binary(tisnap, cmd.OutOrStdout(), cmd.ErrOrStderr()), Seed: seed,
				Accounts: accounts, Regions: regions, Clients: clients, Hot: hot, Volume: volume, Warm: time.Second,
				Operator: int(generation),
			}
			debug.SetGCPercent(demoGCPercent)
			debug.SetMemoryLimit(demoMemory)
			if controlPlane != "" && generation == 2 {
				return errors.New("--control-plane has TiDB Operator 1.x alone")
			}
			if controlPlane == "" {
				cfg.Scale = demoScale
				return demo(cmd.Context(), cmd, "Kubernetes", cfg)
			}
			return onControlPlane(cmd, controlPlane, roles, tisnap, cfg)
		},
	}
	generation.flag(cmd)
	f := cmd.Flags()
	f.IntVar(&accounts, "accounts", 100_000, "accounts between which money is moved")
	f.IntVar(&regions, "regions", 300, "regions that the accounts are split into")
	f.IntVar(&hot, "hot", 2000, "accounts between which money is moved at a time, so that most regions are at rest")
	f.IntVar(&clients, "clients", 16, "clients that move money at the same time")
	f.Int64Var(&seed, "seed", 0, "seed of all random choices (default: the clock's)")
	f.StringVar(&tisnap, "tisnap", beside(), "the program under test")
	f.StringVar(&controlPlane, "control-plane", "", "folder that hack/controlplane/build.sh has made: a real control plane takes the place of the stand-in")
	f.StringVar(&roles, "roles", "manifests", "with --control-plane: folder of rbac-backup.yaml, whose account takes the backup, and of rbac.yaml, whose account does the rest")
	f.StringVar(&volume.Type, "volume-type", "gp3", "type of the restored volumes")
	f.Int64Var(&volume.IOPS, "volume-iops", 7000, "IOPS of the restored volumes")
	f.Int64Var(&volume.ThroughputMiB, "volume-throughput", 400, "MiB/s of the restored volumes")
	return cmd
}

// onControlPlane is the demo with a real API server, controllers and scheduler. The testbed's user may do everything there; the
// program has the roles that users apply, and nothing else.
func onControlPlane(cmd *cobra.Command, built, roles, tisnap string, cfg round.Config) error {
	dir, err := os.MkdirTemp("", "tisnap-plane-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // data and logs of processes that have ended
	p, err := plane.Start(plane.Config{Program: filepath.Join(built, "controlplane"), CRDs: filepath.Join(built, "crds"), Dir: dir})
	if err != nil {
		return err
	}
	accounts, err := rolesOf(cmd.Context(), p, roles)
	if err != nil {
		return errors.Join(err, p.Stop())
	}
	cfg.Kubeconfig = p.Kubeconfig("admin")
	// The pods are processes of this machine: a program in a pod would reach them so, too, and need no role for port forwards.
	cfg.RestoreFlags = []string{"--via", "direct"}
	cfg.Tisnap = binaryAs(tisnap, cmd.OutOrStdout(), cmd.ErrOrStderr(), accounts)
	cfg.Logf = func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
	return errors.Join(demo(cmd.Context(), cmd, "a real control plane of Kubernetes", cfg), p.Stop())
}

// rolesOf makes the accounts of the folder, and returns the kubeconfig for each command.
func rolesOf(ctx context.Context, p *plane.Plane, folder string) (func(command string) string, error) {
	backup, err := p.Account(ctx, filepath.Join(folder, "rbac-backup.yaml"))
	if err != nil {
		return nil, err
	}
	whole, err := p.Account(ctx, filepath.Join(folder, "rbac.yaml"))
	return func(command string) string {
		if command == "backup" {
			return backup
		}
		return whole
	}, err
}

func demo(ctx context.Context, cmd *cobra.Command, kubernetes string, cfg round.Config) error {
	dir, err := os.MkdirTemp("", "tisnap-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // a kubeconfig of servers that are gone
	out := cmd.OutOrStdout()
	cfg.Dir = dir
	cfg.Progress = func(format string, args ...any) { fmt.Fprintf(out, "» "+format+"\n", args...) }
	fmt.Fprintf(out, "» testbed: EC2, S3, %s with TiDB Operator %d.x, PD and TiKV on loopback (seed %d)\n",
		kubernetes, cfg.Operator, cfg.Seed)
	start := time.Now()
	r, err := round.Run(ctx, cfg)
	if err != nil {
		return err
	}
	return checklist(out, r, time.Since(start))
}

// checklist prints what the round has proven, a line each. It is an error if most regions had to be flashed back: the
// demo leaves most of them at rest.
func checklist(out io.Writer, r *round.Result, took time.Duration) error {
	if 2*r.Unchanged < r.Regions {
		return fmt.Errorf("%d of %d regions were unchanged, which are not most of them", r.Unchanged, r.Regions)
	}
	fmt.Fprintf(out, "\nverified in %s:\n", took.Round(100*time.Millisecond))
	for _, check := range append(r.Checks, fmt.Sprintf("%d of %d regions were unchanged and not flashed back", r.Unchanged, r.Regions)) {
		fmt.Fprintf(out, "  ✔ %s\n", check)
	}
	return nil
}

// join quotes what a shell would split.
func join(args []string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = a
		if strings.ContainsAny(a, " \"'$&|;<>()") {
			quoted[i] = "'" + a + "'"
		}
	}
	return strings.Join(quoted, " ")
}
