package plane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// process is one part that runs.
type process struct {
	name string
	cmd  *exec.Cmd
	// alive is closed when this process ends, however it does: the part then exits, too.
	alive io.Closer
	log   *os.File
	done  chan struct{}
}

func startProcess(program, dir, name string, args []string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{name}, args...)...) //nolint:gosec // the program that was built
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	alive, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), log.Close())
	}
	o := &process{name: name, cmd: cmd, alive: alive, log: log, done: make(chan struct{})}
	go func() { // owned by stop
		defer close(o.done)
		_ = cmd.Wait() // it is killed: how it ended does not matter
	}()
	return o, nil
}

func (o *process) ended() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// stop kills the part: nothing of it is needed afterwards.
func (o *process) stop() error {
	err := o.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = o.alive.Close()
	<-o.done
	return errors.Join(err, o.log.Close())
}

// lastWords are the last lines of the part's log.
func (o *process) lastWords() string {
	text, err := os.ReadFile(o.log.Name())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "\n")
}

// freePorts are free ports of loopback.
func freePorts(ctx context.Context, count int) ([]int, error) {
	ports := make([]int, count)
	for i := range ports {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // all are held until the last is chosen
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("no port in %s", l.Addr())
		}
		ports[i] = address.Port
	}
	return ports, nil
}
