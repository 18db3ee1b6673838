package operator_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/tests/operator"
)

// It kills br while it makes volumes (tidb-operator#5074, for snapshots): the Job that is made again restores beside
// what was left, and gc deletes that and nothing else.
// Catalogue: C8.
func TestRestoreKilledWhileVolumesAreMade_NextJobWorksAndGCCleansUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.killed(t, fault.Rule{Point: "ec2.CreateVolume", Nth: 4}, p.BeginRestoreVolumes)
	left := p.restored()
	require.NotEmpty(t, left)
	dead := left[0].Tags[ebs.TagRun]
	run, err := p.RestoreVolumes(within(t), p.target)
	require.NoError(t, err)
	// Requests that were under way at the kill may be carried out after it: the dead run has what it has.
	own := slices.DeleteFunc(p.restored(), func(v ebs.Volume) bool { return v.Tags[ebs.TagRun] == dead })
	require.Len(t, own, 6, "the second run made its own")
	p.gc(t)
	require.Len(t, p.restored(), 6)
	for _, v := range p.restored() {
		require.NotEqual(t, dead, v.Tags[ebs.TagRun])
	}
	require.NotZero(t, run.ResolvedTS("EBS restore success"))
}

// It kills br in the middle of the flashback (velero#4503: a restart leaves it in progress for ever): the Job that is
// made again resumes it, and the cluster serves.
// Catalogue: H1.
func TestRestoreKilledInTheFlashback_NextJobResumesIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, err := p.RestoreVolumes(within(t), p.target)
	require.NoError(t, err)
	p.killed(t, fault.Rule{Point: "tikv.*.KvFlashbackToVersion"}, p.BeginRestoreData)
	require.True(t, p.Bed.Nodes.Cluster(p.target).PD.Recovering(), "the mark stays for the next try")
	run, err := p.RestoreData(within(t), p.target)
	require.NoError(t, err)
	require.NotZero(t, run.ResolvedTS("EBS restore success"))
	require.NoError(t, p.Finish(within(t), p.target))
	require.Empty(t, p.Bed.Nodes.Cluster(p.target).Held())
}

// It terminates br while it makes volumes and waits for them, reading its stderr only at the end
// (tidb-operator#5281: a full pipe, a SIGTERM that is not passed on): it ends, and leaves neither volumes nor a document.
// Catalogue: C2.
func TestRestoreTerminated_EndsAndLeavesNothing(t *testing.T) { //nolint:tparallel // one after the other, on one testbed
	t.Parallel()
	p := newPlace(t)
	for _, at := range []fault.Rule{{Point: "ec2.CreateVolume", Nth: 3}, {Point: "ec2.DescribeVolumes"}} {
		t.Run(at.Point, func(t *testing.T) {
			pod := p.at(t, at, p.BeginRestoreVolumes, func(r *operator.Run) { _ = r.Signal() }) // it may have ended at this moment
			require.Empty(t, p.restored())
			noDocument(t, pod)
		})
	}
	_, err := p.RestoreVolumes(within(t), p.target)
	require.NoError(t, err, "the lock is free, and nothing is in the way")
}

// It terminates br when the API that its undo needs hangs: it exits on its own before the ten
// seconds of a Restore's pod are over, names what is left, and the next Job restores.
// Catalogue: C2.
func TestRestoreTerminatedAndNothingAnswers_EndsAndNamesWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		data       bool
		at, stalls string
		left       string // by the undo, or by the process that does not wait for it any longer
	}{
		"volumes": {at: "journal.begin.await-volumes", stalls: "ec2.DeleteVolume", left: `(6 may be left|up to 6 volumes).*tisnap gc`},
		"data":    {data: true, at: "journal.begin.prepare", stalls: "pd.", left: `release gc of tisnap-|is not finished: the same command continues it`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			begin := p.BeginRestoreVolumes
			if row.data {
				_, err := p.RestoreVolumes(within(t), p.target)
				require.NoError(t, err)
				begin = p.BeginRestoreData
			}
			started, stopped := make(chan *operator.Run, 1), atomic.Bool{}
			p.faults.Watch(func(point string) *fault.Rule {
				if point == row.at && stopped.CompareAndSwap(false, true) {
					r := <-started
					_ = r.Signal() // the error of a process that has ended shows below
				}
				if stopped.Load() && strings.HasPrefix(point, row.stalls) {
					return &fault.Rule{Position: fault.Stall}
				}
				return nil
			})
			run, pod, err := begin(within(t), p.target)
			require.NoError(t, err)
			started <- run
			err = run.Wait()
			p.faults.Watch(nil)
			require.ErrorContains(t, err, "exit status 1", "it exits on its own")
			require.Contains(t, run.Line("stopping"), "[end-within=7.5s]")
			require.Regexp(t, row.left, err.Error(), "in the error that the manager puts into the CR")
			require.False(t, run.Printed("EBS restore success"))
			if !row.data {
				noDocument(t, pod)
				_, err = p.RestoreVolumes(within(t), p.target)
				require.NoError(t, err)
			}
			_, err = p.RestoreData(within(t), p.target)
			require.NoError(t, err)
		})
	}
}

// It starts a second restore of a target while the first one is at work (tidb-operator#5500): it waits for the first
// one, and then makes no second set of volumes beside a cluster that has stores.
// Catalogue: C14.
func TestSecondRestoreOfATarget_NeverWorksBesideTheFirst(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	release := make(chan struct{})
	require.NoError(t, p.faults.Add(fault.Rule{Point: "ec2.CreateVolume", Nth: 2, Position: fault.Slow, Do: func() { <-release }}))
	first, pod, err := p.BeginRestoreVolumes(within(t), p.target)
	require.NoError(t, err)
	require.NoError(t, first.AwaitLines(within(t), "create-volumes"))
	second, _, err := p.BeginRestoreVolumes(within(t), p.target)
	require.NoError(t, err)
	require.NoError(t, second.AwaitLines(within(t), "another run has the lock"))
	require.LessOrEqual(t, len(p.restored()), 6)
	runs := map[string]bool{}
	for _, v := range p.restored() {
		runs[v.Tags[ebs.TagRun]] = true
	}
	require.LessOrEqual(t, len(runs), 1, "the second one makes nothing beside the first")
	require.Error(t, second.Terminate())
	close(release)
	require.NoError(t, first.Wait())
	require.Len(t, p.restored(), 6)
	require.FileExists(t, pod.Bin+"/csb_restore.json")
}
