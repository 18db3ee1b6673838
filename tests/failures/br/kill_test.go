package br_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// process is a run of the shipped br that can be killed.
type process struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func (p *place) launch(t *testing.T, args ...string) *process {
	t.Helper()
	return p.launchWith(t, nil, args...)
}

// launchWith is launch with more in the environment.
func (p *place) launchWith(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	program, err := shipped.BR()
	require.NoError(t, err)
	b := &process{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)}
	b.cmd.Env = append(append(p.Env(), "BR_LOG_TO_TERM=\x01"), env...)
	b.cmd.Dir, b.cmd.Stdout, b.cmd.Stderr = p.dir, &b.out, &b.out
	require.NoError(t, b.cmd.Start())
	t.Cleanup(func() { _ = b.cmd.Process.Kill() })
	return b
}

// kill ends the process as the kernel does.
func (b *process) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, b.cmd.Process.Signal(syscall.SIGKILL))
	require.Error(t, b.cmd.Wait(), b.out.String())
}

// A holder's node dies: nothing holds the cluster for ever, a backup does not believe what is left of the hold, and the
// next pair of jobs works.
// Catalogue: H1.
func TestHolderKilled_ExpiresAndTheNextRunWorks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	holder := p.launch(t, "operator", "pause-gc-and-schedulers", "--pd="+p.pd(), "--ttl=10s")
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.c.Held(), func(s string) bool { return strings.HasPrefix(s, "safe point tisnap-") })
	}, patience, 20*time.Millisecond)
	holder.kill(t)
	require.NotEmpty(t, p.c.Held())
	host, err := os.Hostname()
	require.NoError(t, err)
	p.pause(t).requireRefused(t, "another tool holds the cluster")
	p.pause(t).requireRefused(t, "(host "+host+", which ends it by 20")
	require.Eventually(t, func() bool { return len(p.c.HeldBut("safe point")) == 0 }, 40*time.Second, 50*time.Millisecond, "it expires on its own")

	var next *job
	require.Eventually(t, func() bool { // PD lists the dead one's safe point for up to a second longer
		next = p.pause(t)
		next.readyOrEnded(t)
		return strings.Contains(next.out(), "All ready")
	}, 30*time.Second, 200*time.Millisecond)
	backup := p.backup(t, underPause)
	require.Equal(t, brcompat.ExitDone, backup.ends(t), backup.out())
	next.stop()
	require.Equal(t, brcompat.ExitDone, next.ends(t), next.out())
}

// A pause is killed with early apply off, and the cluster has no journal of it: PD has the old limits, and the next pause puts
// them back at its end.
// https://github.com/tikv/tikv/pull/15587
// Catalogue: A25.
func TestPauseKilledWithEarlyApplyOff_TheNextOnePutsItBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	limits := func() (out []uint64) {
		for _, s := range p.c.Stores() {
			limit, _ := s.EarlyApplyLimit()
			out = append(out, limit)
		}
		return out
	}
	before := limits()
	require.NotContains(t, before, uint64(0))
	holder := p.launch(t, "operator", "pause-gc-and-schedulers", "--pd="+p.pd(), "--ttl=10s")
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.c.Held(), func(s string) bool { return strings.HasPrefix(s, "safe point tisnap-") })
	}, patience, 20*time.Millisecond)
	holder.kill(t)
	require.Equal(t, make([]uint64, len(before)), limits(), "it does not expire")

	var next *job
	require.Eventually(t, func() bool { // once what the dead one holds has run out
		next = p.pause(t)
		next.readyOrEnded(t)
		return strings.Contains(next.out(), "All ready")
	}, 60*time.Second, 200*time.Millisecond)
	require.Equal(t, make([]uint64, len(before)), limits())
	next.stop()
	require.Equal(t, brcompat.ExitDone, next.ends(t), next.out())
	require.Equal(t, before, limits())
	record, recorded := p.c.PD.Etcd("/tisnap/early-apply")
	require.False(t, recorded, record)
}

// readyOrEnded waits until the hold is there or the job has ended.
func (j *job) readyOrEnded(t *testing.T) {
	t.Helper()
	for !strings.Contains(j.out(), "All ready") {
		select {
		case <-j.wake:
		case <-j.done:
			return
		case <-within(t, patience).Done():
			require.FailNow(t, "it is neither ready nor ended", j.out())
		}
	}
}

// https://github.com/pingcap/tidb-operator/issues/5074, https://github.com/pingcap/tidb/issues/44806
// Catalogue: C8.
func TestBackupKilled_NothingStaysUnnamed(t *testing.T) {
	t.Parallel()
	t.Run("in the cut", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		killed := p.launchBackup(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: firstCut + 2, Position: fault.Stall, Times: -1})
		killed.kill(t)
		require.Nil(t, p.backupMeta(t))
		p.requireJournalled(t)
		p.faults.Clear()
		p.ageLock(t)
		p.requireCompletes(t)
	})
	t.Run("while the snapshots are pending", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t, slowSnapshots)
		killed := p.launchBackup(t, fault.Rule{Point: "ec2.DescribeSnapshots", Position: fault.Slow})
		p.awaitBackupMeta(t)
		killed.kill(t)
		var named []string
		for _, s := range p.backupMeta(t).TiKV.Stores {
			for _, v := range s.Volumes {
				named = append(named, v.SnapshotID)
			}
		}
		for _, s := range p.EC2.Snapshots() {
			require.Contains(t, named, string(s.ID), "the Operator deletes by backupmeta")
		}
		require.Len(t, named, 6)
		require.Empty(t, p.c.Held())
		p.requireJournalled(t)
		made := p.snapshots()
		p.ageLock(t)
		p.requireCompletes(t)
		require.ElementsMatch(t, made, p.snapshots(), "the next one waits for the same set")
	})
}

// launchBackup starts a backup and waits until it has come to the fault.
func (p *place) launchBackup(t *testing.T, rule fault.Rule, args ...string) *process {
	t.Helper()
	p.fault(t, rule)
	b := p.launch(t, append([]string{
		"backup", "full", "--type=aws-ebs", "--volume-file=" + p.volumeFile(), "--pd=" + p.pd(), "--storage=" + storage, "--s3.endpoint=" + p.AWS(),
	}, args...)...)
	require.Eventually(t, func() bool { return len(p.faults.Unreached()) == 0 }, patience, 10*time.Millisecond)
	return b
}

// requireJournalled checks that every snapshot carries the run whose journal is in the storage: by that `tisnap gc`
// finds them.
func (p *place) requireJournalled(t *testing.T) {
	t.Helper()
	objects, err := p.store(t).List(t.Context(), manifest.RunsPrefix)
	require.NoError(t, err)
	require.NotEmpty(t, objects)
	run, _, ok := manifest.SplitJournalKey(objects[0].Key)
	require.True(t, ok)
	for _, s := range p.EC2.Snapshots() {
		require.Equal(t, string(run), s.Tags[ebs.TagRun], filepath.Join(storage, string(s.ID)))
	}
}

// The process that started br dies, and nothing forwards a signal: br ends as by SIGTERM, and releases the cluster before the
// leases would.
// Catalogue: H5.
func TestParentDies_EndsAsBySIGTERM(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	program, err := shipped.BR()
	require.NoError(t, err)
	pid, log := filepath.Join(p.dir, "pid"), filepath.Join(p.dir, "parent.log")
	shell := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", `"$@" >`+log+` 2>&1 & echo $! >`+pid+`; wait`, "sh",
		program, "operator", "pause-gc-and-schedulers", "--pd="+p.pd(), "--ttl=10m")
	shell.Env = append(p.Env(), "BR_LOG_TO_TERM=\x01")
	require.NoError(t, shell.Start())
	printed := func(text string) func() bool {
		return func() bool {
			out, err := os.ReadFile(log)
			return err == nil && strings.Contains(string(out), text)
		}
	}
	require.Eventually(t, printed("All ready"), patience, 20*time.Millisecond)
	number, err := os.ReadFile(pid)
	require.NoError(t, err)
	child, err := strconv.Atoi(strings.TrimSpace(string(number)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(child, syscall.SIGKILL) }) // it has ended if all is well
	require.NoError(t, shell.Process.Kill())
	require.Error(t, shell.Wait())
	require.Eventually(t, printed("GC and schedulers are resumed."), patience, 20*time.Millisecond)
	require.True(t, printed("the process that started br has exited")())
	require.Empty(t, p.c.Held())
}

// A pause that gets a second signal while PD refuses to resume: what it holds is named, with what releases it, by the exit code
// of a cluster that is held.
// Catalogue: A12.
func TestPauseEndedByASecondSignal_ReportsTheHold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	pause := p.launch(t, "operator", "pause-gc-and-schedulers", "--pd="+p.pd(), "--ttl=10m")
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(p.c.Held(), func(s string) bool { return strings.HasPrefix(s, "safe point tisnap-") })
	}, patience, 20*time.Millisecond)
	p.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Position: fault.Stall, Times: -1})
	require.NoError(t, pause.cmd.Process.Signal(syscall.SIGTERM))
	require.Eventually(t, func() bool { return len(p.faults.Unreached()) == 0 }, patience, 20*time.Millisecond)
	require.NoError(t, pause.cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, pause.cmd.Wait())
	require.Equal(t, int(brcompat.ExitHeld), pause.cmd.ProcessState.ExitCode(), pause.out.String())
	require.Contains(t, pause.out.String(), "is still held by run ")
	require.Contains(t, pause.out.String(), "release it now with: tisnap release ")
}
