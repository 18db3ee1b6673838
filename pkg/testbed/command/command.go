package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// Run carries out one command line.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := root()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cmd.ExecuteContext(ctx)
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "testbed",
		Short:         "AWS, EKS and TiDB on loopback, for trying and testing tisnap",
		SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		demoCommand(), serveCommand(), crashCommand(), chaosCommand(), failingRunsCommand(),
		soakCommand(), soakEBSCommand(), soakResolveCommand(), soakHoldCommand(), soakKubeCommand(), soakEarlyCommand(), soakArchiveCommand(), soakKillsCommand(), soakCopyCommand(),
		benchResolveCommand(), benchStoresCommand(), benchEBSCommand(), benchBlocksCommand(), benchArchiveCommand(), archiveImageCommand(), benchLargeCommand(), benchFarCommand(), benchSharedCommand(), benchFilledCommand(), benchHoldCommand(), benchMarksCommand(), benchRestoreCommand(),
	)
	return cmd
}

// beside is the path of tisnap in the folder of this executable.
func beside() string {
	self, err := os.Executable()
	if err != nil {
		return "tisnap"
	}
	return filepath.Join(filepath.Dir(self), "tisnap")
}

// binary runs the shipped program as it is, by the environment alone, in its own process. Its stderr and,
// where no one reads it, its stdout go to the given writers.
func binary(path string, stdout, stderr io.Writer) func(*testbed.Testbed) round.Tisnap {
	return binaryAs(path, stdout, stderr, func(string) string { return "" })
}

// binaryAs is binary with a kubeconfig of its own for each command; "" is the testbed's.
func binaryAs(path string, stdout, stderr io.Writer, kubeconfig func(command string) string) func(*testbed.Testbed) round.Tisnap {
	return func(bed *testbed.Testbed) round.Tisnap {
		return func(ctx context.Context, args []string, out io.Writer) (int, error) {
			if out == nil {
				fmt.Fprintf(stdout, "\n$ tisnap %s\n", join(args))
				out = stdout
			}
			cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // the program that the flag names
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
			cmd.WaitDelay = time.Minute
			cmd.Env = append(os.Environ(), bed.Env()...)
			if path := kubeconfig(args[0]); path != "" {
				cmd.Env = append(cmd.Env, "KUBECONFIG="+path)
			}
			cmd.Stdout, cmd.Stderr = out, stderr
			err := cmd.Run()
			if cmd.ProcessState != nil && cmd.ProcessState.Exited() {
				return cmd.ProcessState.ExitCode(), nil
			}
			return 0, err
		}
	}
}
