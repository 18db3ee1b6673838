package restore_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestRun_AnswerOfCreateVolumeLost_MakesNoSecondVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "ec2.CreateVolume", Position: fault.After, Times: 3}))
	result, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.Zone = "us-west-2b" })
	require.NoError(t, err)
	require.Empty(t, l.faults.Unreached())
	volumes := l.volumes()
	require.Len(t, volumes, 6)
	for _, v := range volumes {
		require.EqualValues(t, "us-west-2b", v.Zone)
	}
	require.Len(t, result.Volumes, 6)
	require.Len(t, result.Stores, 3)
	for _, store := range result.Stores {
		var parts []string
		for _, p := range store.Parts {
			parts = append(parts, p.Name)
		}
		require.Subset(t, parts, []string{"volume", "pod", "TiKV", "collect", "recover"}, store.Pod)
		require.Regexp(t, `^copy-tikv-[0-2]$`, store.Pod)
	}
}

func TestRun_Failures_LeaveNothing(t *testing.T) {
	t.Parallel()
	steps := restore.StepNames(journal.StepCreateCluster, "await-restart")
	for name, part := range map[string][]string{"first half": steps[:len(steps)/2], "second half": steps[len(steps)/2:]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			for _, step := range part {
				t.Run("cancelled in "+step, func(t *testing.T) { cancelledIn(t, l, step) })
			}
		})
	}
}

func TestRun_FailsEarlyOrLate_LeavesNothingOrTheWholeCluster(t *testing.T) { //nolint:tparallel // the parts share a testbed and follow each other
	t.Parallel()
	l := newLab(t)
	t.Run("a volume goes to error", func(t *testing.T) { volumeError(t, l) })
	t.Run("cancelled once the cluster serves: it is kept", func(t *testing.T) {
		ctx, cancel := context.WithCancel(within(t))
		defer cancel()
		_, err := l.restore(ctx, t, &cancelAt{step: "thaw", cancel: cancel}, nil)
		require.ErrorIs(t, err, context.Canceled)
		require.Len(t, l.volumes(), 6)
		require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
		require.Empty(t, l.bed.Nodes.Cluster(target()).PD.TTLConfigs(), "PD schedules again")
	})
}

// cancelledIn cancels a restore when it begins a step.
func cancelledIn(t *testing.T, l *lab, step string) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	sink := &cancelAt{step: step, cancel: cancel}
	_, err := l.restore(ctx, t, sink, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, sink.hit, "there is no step %s", step)
	l.nothingLeft(t)
}

// A cluster that serves is kept, whatever fails after that, and the run reports it with the command that finishes it.
func TestRun_FailsOnceTheClusterServes_IsRestoredAndUnfinished(t *testing.T) {
	t.Parallel()
	for step, at := range map[string]phase.EventType{
		journal.StepAwaitLeaders: phase.StepFinished, "thaw": phase.StepStarted, "check-pd-state": phase.StepFinished,
	} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			result, err := l.restore(ctx, t, &cancelAt{step: step, at: at, cancel: cancel}, nil)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, failure.Partial, failure.KindOf(err))
			require.ErrorContains(t, err, "the cluster is restored and kept, but not finished: ")
			require.Equal(t, "finish it with: tisnap resolve tidb/copy --backup b", failure.HintOf(err))
			require.True(t, result.Restored)
			require.Len(t, result.Left, 1)
			require.Len(t, l.volumes(), 6)
			require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
			_, err = l.restore(within(t), t, nil, nil)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, "run restore-1 has restored the data of backup b to it, and failed at 20")
			require.Contains(t, failure.HintOf(err), "finish it with: tisnap resolve tidb/copy --backup b;", "the same command names it again")
			result, err = l.resolve(within(t), t)
			require.NoError(t, err, "the command that was named finishes it")
			require.True(t, result.Restored)
			require.Empty(t, l.bed.Nodes.Cluster(target()).PD.TTLConfigs(), "PD schedules again")
			_, err = l.resolve(within(t), t)
			require.Equal(t, failure.Conflict, failure.KindOf(err), "it is finished")
		})
	}
}

// A cluster that a failed restore could not delete stands in the way of the same command, which names the one that deletes it.
func TestRun_ClusterCannotBeDeleted_NamesTheCommand(t *testing.T) {
	t.Parallel()
	for step, parts := range map[string]string{"start-tikv": "6 PVCs", "flashback": "3 TiKV stores"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.tidbclusters", Position: fault.Before, Code: "Unauthorized", Times: -1}))
			result, err := l.restore(ctx, t, &cancelAt{step: step, at: phase.StepStarted, cancel: cancel}, func(o *restore.Options) { o.Timeout = 20 * time.Second })
			require.ErrorContains(t, err, "undo create-cluster: delete tidbcluster of tidb/copy: ")
			require.Contains(t, result.Left, "cluster tidb/copy may be left: tisnap restore abort restore-1 --storage "+l.store.URL()+" --yes deletes it")
			l.faults.Clear()
			_, err = l.restore(within(t), t, nil, nil)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, "run restore-1 has made the cluster and "+parts+" of it, and has not restored it")
			require.Regexp(t, `^if that run has ended, delete them with: tisnap restore abort restore-1 --storage \S+ --yes;`, failure.HintOf(err))
			require.NoError(t, l.kube.DeleteCluster(within(t), target(), "restore-1", false))
		})
	}
}

// volumeError lets each volume of one snapshot go to error, the replacements too.
func volumeError(t *testing.T, l *lab) {
	for _, keep := range []bool{true, false} {
		snapshot := l.bed.EC2.Snapshots()[0].ID
		l.faults.Clear()
		require.NoError(t, l.faults.Add(fault.Rule{Point: "ec2.DescribeVolumes", Do: func() {
			for _, v := range l.volumes() {
				if v.Snapshot == snapshot {
					_ = l.bed.EC2.FailVolume(v.ID)
				}
			}
		}, Position: fault.Slow, Times: -1}))
		_, err := l.restore(within(t), t, nil, func(o *restore.Options) { o.KeepOnFailure = keep })
		require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "create volume of "+string(snapshot)+": 4 volumes from this snapshot")
		require.ErrorContains(t, err, "failed or disappeared")
		l.faults.Clear()
		if !keep {
			l.nothingLeft(t)
			continue
		}
		require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
		require.NoError(t, l.kube.DeleteCluster(within(t), target(), "restore-1", false))
		for _, v := range l.volumes() {
			require.NoError(t, l.ebs.DeleteVolume(within(t), v.ID))
		}
		l.nothingLeft(t)
	}
}

// A panic while volumes are made is undone like any other error.
func TestRun_PanicWhileVolumesAreMade_IsUndone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.wrap = func(e restore.EBS) restore.EBS { return &panicking{EBS: e} }
	_, err := l.restore(within(t), t, nil, nil)
	var p *failure.PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "a bug", p.Value)
	l.nothingLeft(t)
}

// panicking is an EC2 whose third CreateVolume is a bug.
type panicking struct {
	restore.EBS
	calls atomic.Int64
}

func (p *panicking) CreateVolume(ctx context.Context, r ebs.VolumeRequest) (ebs.Volume, error) {
	if p.calls.Add(1) == 3 {
		panic("a bug")
	}
	return p.EBS.CreateVolume(ctx, r)
}
