package resolve_test

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// process is tisnap in a process of its own.
type process struct {
	cmd    *exec.Cmd
	output bytes.Buffer
}

// start starts the shipped program.
func (p *place) start(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	c := &process{cmd: exec.CommandContext(within(t), path, append(args, "--storage", round.Storage, "--timeout", "1m", "--progress", "plain")...)}
	c.cmd.Env = append(os.Environ(), p.Bed().Env()...)
	c.cmd.Stdout, c.cmd.Stderr = &c.output, &c.output
	require.NoError(t, c.cmd.Start())
	return c
}

// signal sends a signal to the process.
func (c *process) signal(s syscall.Signal) { _ = c.cmd.Process.Signal(s) } // it may have ended at this moment

// wait is the exit code; -1 for a process that was killed.
func (c *process) wait() int {
	_ = c.cmd.Wait() // the code says it
	return c.cmd.ProcessState.ExitCode()
}

// killAt starts a restore and kills it at a call.
func (p *place) killAt(t *testing.T, name cluster.Name, rule fault.Rule, args ...string) {
	t.Helper()
	started := make(chan *process, 1)
	rule.Position, rule.Do = fault.Slow, func() {
		c := <-started
		started <- c
		c.signal(syscall.SIGKILL)
	}
	p.fault(t, rule)
	c := p.start(t, args...)
	started <- c
	require.Equal(t, -1, c.wait(), c.output.String())
	p.reached(t)
	require.NotNil(t, p.cluster(name))
}

// TestG15 kills a restore in each sub-phase and resumes it with resolve, and kills that too: what is done is not done
// again, and the report says where the time went (tidb-operator#5239).
func TestG15_KilledInEachSubPhase_IsResumed(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	for _, at := range []fault.Rule{
		{Point: "tikv.*.ReadRegionMeta"}, {Point: "pd.SetTTLConfig"}, {Point: "tikv.*.RecoverRegion", Nth: 2},
		{Point: "tikv.*.KvPrepareFlashbackToVersion", Nth: 4}, {Point: "tikv.*.KvFlashbackToVersion", Nth: 4},
		{Point: "pd.UnmarkRecovering"}, {Point: "pd.DropTTLConfig"},
	} {
		t.Run(at.Point, func(t *testing.T) {
			name := p.next()
			p.killAt(t, name, at, "restore", round.BackupID, "--to", name.String())
			refused := p.resolve(t, name)
			require.Equal(t, exitConflict, refused.code, "the dead run's lock is there: %s", refused)
			require.Contains(t, refused.stderr, "--force")
			finish := at.Point == "pd.DropTTLConfig" || at.Point == "pd.UnmarkRecovering"
			if at.Point == "pd.DropTTLConfig" { // PD's mark is gone: what is resolved is not resolved again
				p.fault(t, fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Code: "PermissionDenied", Times: -1})
			}
			if !finish {
				p.killAt(t, name, fault.Rule{Point: "tikv.*.KvFlashbackToVersion", Nth: 2}, "resolve", name.String(), "--backup", round.BackupID, "--force")
			}
			e := p.resolve(t, name, "--force")
			require.Zero(t, e.code, "%s: %s", at.Point, e)
			p.faults.Clear()
			var sum float64
			for _, phase := range e.doc.Report.Phases {
				var steps float64
				for _, step := range phase.Steps {
					steps += step.Seconds
				}
				require.InDelta(t, steps, phase.Seconds, 1)
				sum += phase.Seconds
			}
			require.InDelta(t, sum, e.doc.Report.TotalSeconds, 1)
			p.verify(t, name)
		})
	}
}

// TestG2 stops a restore with SIGSTOP, lets another run resolve the cluster, and lets the first one continue
// (tikv/tikv#15684): it ends, and neither changes nor deletes anything.
func TestG2_RunThatWasStoppedComesBack_TouchesNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, at := range []fault.Rule{{Point: "tikv.*.RecoverRegion", Nth: 2}, {Point: "tikv.*.KvFlashbackToVersion", Nth: 2}} {
		name := p.next()
		started, stopped := make(chan *process, 1), make(chan struct{})
		at.Position, at.Do = fault.Slow, func() {
			c := <-started
			c.signal(syscall.SIGSTOP)
			close(stopped)
		}
		p.fault(t, at)
		c := p.start(t, "restore", round.BackupID, "--to", name.String())
		started <- c
		select {
		case <-stopped:
		case <-within(t).Done():
			require.Fail(t, "it never came to "+at.Point)
		}
		p.reached(t)
		e := p.resolve(t, name, "--force")
		require.Zero(t, e.code, e.String())
		p.verify(t, name)

		c.signal(syscall.SIGCONT)
		require.Equal(t, int(exitConflict), c.wait(), c.output.String())
		require.NotNil(t, p.cluster(name), c.output.String())
		_, err := p.Bed().AwaitCluster(within(t), name)
		require.NoError(t, err)
		p.verify(t, name)
	}
}
