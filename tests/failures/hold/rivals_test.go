package hold_test

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// rival is a backup in a process of its own.
type rival struct {
	cmd    *exec.Cmd
	output bytes.Buffer
}

// start starts a backup with the shipped program.
func (p *place) start(t *testing.T, args ...string) *rival {
	t.Helper()
	path, err := shipped.Program()
	require.NoError(t, err)
	r := &rival{cmd: exec.CommandContext(within(t, 3*time.Minute), path, append([]string{
		"backup", prod.String(), "--storage", storage, "--lease", "1m", "--max-hold", "2m", "--pending-quota", "5000", "--steady", "1s", "--progress", "plain",
	}, args...)...)}
	r.cmd.Env = append(os.Environ(), p.Env()...)
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	require.NoError(t, r.cmd.Start())
	return r
}

// wait is the exit code; -1 for a process that was killed.
func (r *rival) wait() int {
	_ = r.cmd.Wait() // by its exit code
	return r.cmd.ProcessState.ExitCode()
}

// TestRunnersAtOnce starts several backups of one cluster at the same moment: one wins, and the others name the owner of
// the lock and until when.
func TestRunnersAtOnce_OneWinsAndTheOthersNameIt(t *testing.T) {
	t.Parallel()
	for name, names := range map[string][]string{
		"two of their own names":    {"a", "b"},
		"three of their own names":  {"a", "b", "c"},
		"three times the same name": {"a", "a", "a"}, // a CronJob that fired more than once
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, 3)
			// The winner does not end before the others have: its seal is put off.
			p.fault(t, fault.Rule{Point: "object.seal.json", Position: fault.Before, Code: "SlowDown", Times: -1})
			rivals := make([]*rival, len(names))
			for i, backup := range names {
				rivals[i] = p.start(t, "--name", backup, "--run-id", "run-"+strconv.Itoa(i))
			}
			ended := make(chan int, len(rivals))
			for i, r := range rivals {
				go func() {
					r.wait()
					ended <- i
				}()
			}
			var losers []int
			for range len(rivals) - 1 {
				losers = append(losers, <-ended)
			}
			p.reachedSeal(t)
			if names[0] == names[1] {
				p.deletesBeside(t, names[0])
			}
			p.faults.Clear()
			winner := <-ended
			require.Zero(t, rivals[winner].cmd.ProcessState.ExitCode(), rivals[winner].output.String())
			require.Len(t, p.EC2.Snapshots(), 6)
			p.nothingHeld(t)
			require.False(t, slices.Contains(losers, winner))
			for _, i := range losers {
				output := rivals[i].output.String()
				require.Equal(t, int(exitConflict), rivals[i].cmd.ProcessState.ExitCode(), output)
				require.Regexp(t, `held by run run-`+strconv.Itoa(winner)+` \(backup, pid \d+ on host .+\) since \d{4}-.+Z, renewed last at \d{4}-.+Z`, output)
			}
		})
	}
}

// reachedSeal waits until the winner wants to seal.
func (p *place) reachedSeal(t *testing.T) {
	t.Helper()
	await(t, time.Minute, "the seal", func() bool { return p.faults.Calls("object.seal.json") > 0 })
}

// deletesBeside starts what deletes beside the winner, whose backup is not sealed yet: a gc leaves it alone, and a delete is
// refused with the name of the run.
func (p *place) deletesBeside(t *testing.T, backup string) {
	t.Helper()
	snapshots := len(p.EC2.Snapshots())
	e := p.run(within(t, time.Minute), "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
	require.Zero(t, e.code, e.String())
	e = p.run(within(t, time.Minute), "delete", backup, "--last", "--yes", "--delete-rate", "100")
	require.Equal(t, exitConflict, e.code, e.String())
	require.Regexp(t, `uses it: .*run run-\d \(backup, pid \d+ on host .+\) holds the lock until \d{4}-.+Z`, e.String())
	require.Len(t, p.EC2.Snapshots(), snapshots)
}
