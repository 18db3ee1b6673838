package operator

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/awsenv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// brBin is the volume that the init container and the manager share.
const brBin = "/var/lib/br-bin"

// Pod is one Job's pod: the volume with br in it, the working folder, and what is recorded of its environment. The
// places of the recording are replaced by the testbed's.
type Pod struct {
	bed   *testbed.Testbed
	pd    string // address of the cluster's PD
	Bin   string // stands for brBin
	work  string
	place string   // of the storage in the bucket
	Extra []string // after the recorded arguments: the options of the CR
}

// newPod makes the pod's folders below dir and runs its init container on an image whose /br is the program.
func newPod(ctx context.Context, bed *testbed.Testbed, dir, job, program, pd string) (*Pod, error) {
	p := &Pod{bed: bed, pd: pd, Bin: filepath.Join(dir, "br-bin"), work: filepath.Join(dir, "work")}
	for _, folder := range []string{p.Bin, p.work} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	recorded, err := RecordedJob(job)
	if err != nil {
		return nil, err
	}
	for _, c := range recorded.Spec.Template.Spec.InitContainers {
		argv := slices.Concat(c.Command, c.Args)
		for i, a := range argv {
			a = strings.ReplaceAll(a, brBin, p.Bin)
			argv[i] = strings.ReplaceAll(a, "cp /br ", "cp "+program+" ")
		}
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("init container %s: %w: %s", c.Name, err, out)
		}
	}
	return p, nil
}

// arguments puts the testbed's places into recorded arguments.
func (p *Pod) arguments(recorded []string) []string {
	out := make([]string, 0, len(recorded)+len(p.Extra))
	for _, a := range recorded {
		switch {
		case strings.HasPrefix(a, "--pd="):
			a = "--pd=" + p.pd
		case strings.HasPrefix(a, "--storage="):
			a = "--storage=s3://" + Bucket + "/" + p.place
		case strings.HasPrefix(a, "--s3.endpoint="):
			a = "--s3.endpoint=" + p.bed.AWS()
		}
		out = append(out, strings.ReplaceAll(a, brBin, p.Bin))
	}
	return append(out, p.Extra...)
}

// environment is the recorded one. EC2's endpoint is the testbed's; the pod has nothing else.
func (p *Pod) environment() ([]string, error) {
	calls, err := RecordedCalls()
	if err != nil {
		return nil, err
	}
	env := awsenv.List()
	for _, name := range slices.Sorted(maps.Keys(calls[0].Env)) {
		env = append(env, name+"="+calls[0].Env[name])
	}
	return append(env, "AWS_ENDPOINT_URL="+p.bed.AWS(), "PATH="+os.Getenv("PATH"), "TMPDIR="+p.work), nil
}

// Run is a run of br as the manager follows it.
type Run struct {
	cmd    *exec.Cmd
	closed chan struct{} // when the process has ended

	mu       sync.Mutex
	lines    []string // of stdout
	stderr   string
	progress []float64 // as the file showed it, each second
	err      error     // of the process
}

// Start runs br. The process ends with ctx by SIGKILL, as a pod's does.
func (p *Pod) Start(ctx context.Context, recorded []string) (*Run, error) {
	env, err := p.environment()
	if err != nil {
		return nil, err
	}
	run := &Run{cmd: exec.CommandContext(ctx, filepath.Join(p.Bin, "br"), p.arguments(recorded)...), closed: make(chan struct{})}
	run.cmd.Dir, run.cmd.Env = p.work, env
	stdout, err := run.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := run.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := run.cmd.Start(); err != nil {
		return nil, err
	}
	pollCtx, stop := context.WithCancel(ctx)
	var pipes, poll sync.WaitGroup
	poll.Go(func() { run.pollProgress(pollCtx, filepath.Join(p.work, "progress.txt")) })
	pipes.Go(func() { run.scan(stdout) })
	pipes.Go(func() { run.drain(stderr) })
	go func() {
		defer close(run.closed)
		pipes.Wait()
		err := run.cmd.Wait()
		stop()
		poll.Wait()
		run.mu.Lock()
		defer run.mu.Unlock()
		run.err = err
	}()
	return run, nil
}

// scan reads stdout line by line, as it comes.
func (r *Run) scan(stdout io.Reader) {
	reader := bufio.NewReader(stdout)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			r.mu.Lock()
			r.lines = append(r.lines, strings.TrimSuffix(line, "\n"))
			r.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (r *Run) drain(stderr io.Reader) {
	var b bytes.Buffer
	_, _ = b.ReadFrom(stderr) // what was read counts
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stderr = b.String()
}

// pollProgress reads the progress file each second. A file that is there has to hold a number.
func (r *Run) pollProgress(ctx context.Context, path string) {
	for wait.For(ctx, time.Second) == nil {
		r.readProgress(path)
	}
	r.readProgress(path)
}

func (r *Run) readProgress(path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		return
	}
	number, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(string(text)), "%"), 64)
	if err != nil {
		number = -1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progress = append(r.progress, number)
}

// Printed reports whether a line of stdout has the text.
func (r *Run) Printed(text string) bool { return r.Line(text) != "" }

// Line is the first line of stdout that has the text, from the text on; "" without one.
func (r *Run) Line(text string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		if i := strings.Index(line, text); i >= 0 {
			return line[i:]
		}
	}
	return ""
}

// ResolvedTS is the number on the success line, as the manager cuts it out; 0 without one.
func (r *Run) ResolvedTS(successTag string) uint64 {
	found := regexp.MustCompile(`resolved_ts=\d+`).FindString(r.Line(successTag))
	ts, err := strconv.ParseUint(strings.TrimPrefix(found, "resolved_ts="), 10, 64)
	if err != nil {
		return 0
	}
	return ts
}

// SizeGiB is the first size on the success line, which the manager takes for GiB; 0 without one.
func (r *Run) SizeGiB(successTag string) int64 {
	found := regexp.MustCompile(`size=\d+`).FindString(r.Line(successTag))
	size, err := strconv.ParseInt(strings.TrimPrefix(found, "size="), 10, 64)
	if err != nil {
		return 0
	}
	return size
}

// AwaitLines waits until stdout has all texts; an end of the process before that is an error.
func (r *Run) AwaitLines(ctx context.Context, texts ...string) error {
	for {
		missing := slices.DeleteFunc(slices.Clone(texts), r.Printed)
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-r.closed:
			return fmt.Errorf("br ended before it printed %q: %w", missing, r.Failure())
		default:
		}
		if err := wait.For(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("wait for %q: %w", missing, err)
		}
	}
}

// Signal sends what the kubelet sends when the Job is deleted.
func (r *Run) Signal() error { return r.cmd.Process.Signal(syscall.SIGTERM) }

// Terminate is Signal, and waits for the end.
func (r *Run) Terminate() error {
	if err := r.Signal(); err != nil {
		return err
	}
	return r.Wait()
}

// Kill ends the process as a node that is lost does.
func (r *Run) Kill() error { return r.cmd.Process.Kill() }

// Wait waits for the end; the error has what the manager would write to the CR.
func (r *Run) Wait() error {
	<-r.closed
	if r.err != nil {
		return r.Failure()
	}
	return nil
}

// Failure is the error that the manager reports: lines with [ERROR], and stderr.
func (r *Run) Failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text []string
	for _, line := range r.lines {
		if strings.Contains(line, "[ERROR]") {
			text = append(text, line)
		}
	}
	return errors.Join(r.err, errors.New(strings.Join(append(text, r.stderr), "\n")))
}
