package crash

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/testbed"
)

// Program is the shipped program, in one process after another. It is safe for concurrent use.
type Program struct {
	Path string

	mu      sync.Mutex
	process *os.Process
}

// Run runs the program against the testbed and waits for it. The code is -1 for a process that was killed.
func (p *Program) Run(ctx context.Context, bed *testbed.Testbed, args []string, out io.Writer) (int, error) {
	cmd := exec.CommandContext(ctx, p.Path, args...) //nolint:gosec // the caller's program
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), bed.Env()...)
	cmd.Stdout, cmd.Stderr = out, out
	p.mu.Lock()
	err := cmd.Start()
	p.process = cmd.Process
	p.mu.Unlock()
	if err != nil {
		return 0, err
	}
	err = cmd.Wait()
	p.mu.Lock()
	p.process = nil
	p.mu.Unlock()
	var exit *exec.ExitError
	if err == nil || (errors.As(err, &exit) && ctx.Err() == nil) {
		return cmd.ProcessState.ExitCode(), nil
	}
	return 0, err
}

// Signal sends a signal to the process that runs, if one does.
func (p *Program) Signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		_ = p.process.Signal(s) // it may have ended at this moment
	}
}
