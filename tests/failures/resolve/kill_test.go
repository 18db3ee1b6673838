package resolve_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/report"
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
	_ = c.cmd.Wait() // by its exit code
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

// It kills a restore in each sub-phase and resumes it with resolve, and kills that too: what is done is not done
// again, and the report shows where the time went (tidb-operator#5239).
// Catalogue: G15.
func TestKilledInEachSubPhase_IsResumed(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
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
			refused := p.resolve(t, name, "--lock-wait", "0")
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
			timesAgree(t, e.doc.Report.TotalSeconds, e.doc.Report.Phases)
			p.verify(t, name)
			p.nothingUnfinished(t)
		})
	}
}

// nothingUnfinished requires that no run is listed as one that died, and so waits for a person.
func (p *place) nothingUnfinished(t *testing.T) {
	t.Helper()
	e := p.run(within(t), t, "runs", "list", "-o", "json")
	require.Zero(t, e.code, e.String())
	require.Contains(t, e.stdout, `"resolvedBy"`, "the restore that was killed")
	require.NotContains(t, e.stdout, `"unfinished"`)
}

// timesAgree checks that a report shows where the time went: each step lies within its phase, beside others or not, the
// phases' own times are no more than the total, and most of the total is in a step. The rest is the journal's.
func timesAgree(t *testing.T, total float64, phases []report.Phase) {
	t.Helper()
	const rounding = 50 * time.Millisecond
	var own, in float64
	var steps []report.Step
	for _, p := range phases {
		end := after(p.Start, p.Seconds).Add(rounding)
		for _, s := range p.Steps {
			require.False(t, s.Start.Before(p.Start.Add(-rounding)) || after(s.Start, s.Seconds).After(end), "%s: %+v", s.Name, p)
		}
		steps = append(steps, p.Steps...)
		own += p.Own()
	}
	slices.SortFunc(steps, func(a, b report.Step) int { return a.Start.Compare(b.Start) })
	var covered time.Time
	for _, s := range steps {
		from, end := s.Start, after(s.Start, s.Seconds)
		if from.Before(covered) {
			from = covered
		}
		if end.After(covered) {
			in, covered = in+end.Sub(from).Seconds(), end
		}
	}
	require.LessOrEqual(t, own, total+rounding.Seconds())
	require.Greater(t, in, total/2, "%+v", phases)
}

// after is the time some seconds after another.
func after(t time.Time, seconds float64) time.Time {
	return t.Add(time.Duration(seconds * float64(time.Second)))
}

// It stops a restore with SIGSTOP, lets another run resolve the cluster, and lets the first one continue
// (tikv/tikv#15684): it ends, and neither changes nor deletes anything.
// Catalogue: G2.
func TestRunThatWasStoppedComesBack_TouchesNothing(t *testing.T) {
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
