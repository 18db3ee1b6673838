package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	beginInterval = 500 * time.Millisecond // how often a starting run's journal is polled
	beginTimeout  = 10 * time.Minute       // how long its checks may take
)

func (a *app) waitFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.wait, "wait", true,
		"wait for the run to finish; --wait=false returns once it has started and leaves it to a background process "+
			"(see: tisnap logs, tisnap status)")
}

// startedDoc is the output of a command with --wait=false.
type startedDoc struct {
	header
	Run cluster.RunID `json:"run"`
	PID int           `json:"pid"`
	Log string        `json:"log"` // what the process prints
}

func (d *startedDoc) table(w io.Writer, v view) error {
	_, err := fmt.Fprintf(w, "run %s has begun (pid %d, output in %s)\nfollow it with: tisnap logs -f %s\n", d.Run,
		d.PID, d.Log, d.Run)
	return err
}

// background runs the command in a process that outlives this one, and returns once the run has started: its checks
// have passed and its journal is in the storage. A run that fails before that is returned as an error with its output.
// Interrupting the wait stops the process, which undoes its work.
func (a *app) background(
	ctx context.Context, cmd *cobra.Command, store objstore.Store, run cluster.RunID,
) (document, error) {
	before, err := lastRecord(ctx, store, run)
	if err != nil {
		return nil, err
	}
	out, err := openOutput(run)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the process has a descriptor of its own
	earlier, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "open log of run", out.Name())
	}
	process, err := start(backgroundArgs(a.args, cmd.Flags(), run), out)
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, "start process", string(run))
	}
	a.ended = nil                           // from here on the background process announces the outcome
	ended := make(chan error, 1)            // buffered: the receiver may have gone
	go func() { ended <- process.Wait() }() // lives as long as the other process does, or this one
	if err := awaitBegin(ctx, store, run, before, process.Process, ended); err != nil {
		printed, _ := os.ReadFile(out.Name()) // best effort: the error alone is enough
		_, _ = a.streams.Err.Write(printed[min(int(earlier), len(printed)):])
		return nil, err
	}
	return &startedDoc{header: newHeader("RunStarted"), Run: run, PID: process.Process.Pid, Log: out.Name()}, nil
}

// lastRecord is the number of the run's last record; 0 if it has no journal.
func lastRecord(ctx context.Context, store objstore.Store, run cluster.RunID) (int, error) {
	r, err := runs.Read(ctx, store, run)
	switch {
	case failure.Is(err, failure.NotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return r.History.Records[len(r.History.Records)-1].Seq, nil
}

func openOutput(run cluster.RunID) (*os.File, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		folder = os.TempDir()
	}
	folder = filepath.Join(folder, "tisnap", "runs")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, failure.Wrap(err, failure.Usage, "open log of run", folder)
	}
	f, err := os.OpenFile(filepath.Join(folder, string(run)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return f, failure.Wrap(err, failure.Usage, "open log of run", folder)
}

// start runs this program in its own session, so that it outlives the terminal.
func start(args []string, out io.Writer) (*exec.Cmd, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := exec.Command(program, args...) //nolint:gosec,noctx // runs itself, and must outlive this process
	process.Stdout, process.Stderr = out, out
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return process, process.Start()
}

// backgroundArgs returns the background process's command line: this one's, followed by flags that override it (the
// last one wins) and the environment.
func backgroundArgs(args []string, flags *pflag.FlagSet, run cluster.RunID) []string {
	end := len(args)
	if dash := flags.ArgsLenAtDash(); dash >= 0 { // behind "--" there are no flags
		end -= flags.NArg() - dash + 1
	}
	more := []string{"--wait=true", "--run-id=" + string(run), "--progress=plain"}
	if latest := flags.Lookup(latestIs); latest != nil && latest.Value.String() != "" {
		more = append(more, "--"+latestIs+"="+latest.Value.String())
	}
	return slices.Insert(slices.Clone(args), end, more...)
}

// awaitBegin waits until the run's journal has grown past before.
func awaitBegin(
	ctx context.Context, store objstore.Store, run cluster.RunID, before int, process *os.Process, ended <-chan error,
) error {
	ctx, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	for {
		select {
		case err := <-ended:
			return endedEarly(run, err)
		default:
		}
		if last, err := lastRecord(ctx, store, run); err == nil && last > before {
			return nil
		}
		if err := wait.For(ctx, beginInterval); err != nil {
			_ = process.Signal(syscall.SIGTERM) // it undoes its work; harmless if it has exited
			_ = <-ended                         // its outcome is in its journal
			return failure.Annotate(err, "wait for the run to begin", string(run))
		}
	}
}

// endedEarly returns the error, with the exit status, of a process that exited before its run was seen to start; nil if
// it had nothing to do or finished quickly.
func endedEarly(run cluster.RunID, err error) error {
	if err == nil {
		return nil
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return failure.Wrap(err, failure.Unknown, "wait for the run to begin", string(run))
	}
	for _, row := range exitCodes {
		if int(row.code) == exit.ExitCode() {
			return failure.New(row.kind, "start run", string(run), "its process ended with status %d", exit.ExitCode())
		}
	}
	return failure.Wrap(err, failure.Unknown, "start run", string(run))
}
