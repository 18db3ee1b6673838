package workers_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// controlled runs the pods of Jobs until the test ends: what the n-th pod of an index does is up to run.
func (l *lab) controlled(t *testing.T, run func(ctx context.Context, pod *corev1.Pod, index, n int) int32) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done, mu = sync.WaitGroup{}, sync.Mutex{}
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	made := map[int]int{}
	done.Go(func() {
		l.server.RunJobs(ctx, func(ctx context.Context, pod *corev1.Pod) int32 {
			index, _ := strconv.Atoi(pod.Annotations["batch.kubernetes.io/job-completion-index"])
			mu.Lock()
			made[index]++
			n := made[index]
			mu.Unlock()
			return run(ctx, pod, index, n)
		})
	})
}

func TestRunJobs_PodsThatFailOrAreEvicted_AreMadeAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlled(t, func(_ context.Context, pod *corev1.Pod, index, n int) int32 {
		switch {
		case index == 0 && n <= 4: // more often than Retries
			l.server.Evict(pod.Namespace, pod.Name)
		case index == 1 && n <= 2:
			return 1
		}
		return 0
	})
	made := l.make(t, spec())
	var last workers.State
	require.NoError(t, l.jobs.Wait(within(t), made, func(s workers.State) { last = s }))
	require.Equal(t, 3, last.Succeeded)
	require.Equal(t, 2, last.Failed)
}

func TestRunJobs_FinalCode_EndsTheJobAndItsPods(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlled(t, func(ctx context.Context, _ *corev1.Pod, index, _ int) int32 {
		if index == 1 {
			return 7
		}
		<-ctx.Done()
		return 143
	})
	made := l.make(t, spec())
	err := l.jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "exit code 7 matching FailJob rule")
	require.NoError(t, l.jobs.Remove(within(t), made))
}

func TestRunJobs_IndexFailsTooOften_OthersFinishFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlled(t, func(_ context.Context, _ *corev1.Pod, index, _ int) int32 { return int32(min(index, 1)) })
	made := l.make(t, spec())
	err := l.jobs.Wait(within(t), made, nil)
	require.ErrorContains(t, err, "FailedIndexes")
	s, err := l.jobs.State(within(t), made)
	require.NoError(t, err)
	require.Equal(t, 6, s.Failed, "each of two indexes three times")
}

// A Job gets no pod before the second time that it is allowed: also not if that never comes.
func TestMakeIf_PodsOnlyOnceAllowedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var ran sync.Map
	l.controlled(t, func(_ context.Context, pod *corev1.Pod, _, _ int) int32 {
		ran.Store(pod.Labels[batchv1.JobNameLabel], true)
		return 0
	})
	ctx, cancel := context.WithCancel(within(t))
	asked := 0
	refused := func(context.Context) error {
		if asked++; asked == 2 {
			cancel() // the command is killed
		}
		return ctx.Err()
	}
	_, err := l.jobs.MakeIf(ctx, spec(), refused)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, new(true), l.job(t).Spec.Suspend)
	other := spec()
	other.Name = "another"
	made, err := l.jobs.MakeIf(within(t), other, func(context.Context) error { return nil })
	require.NoError(t, err)
	require.NoError(t, l.jobs.Wait(within(t), made, nil))
	_, early := ran.Load(spec().Name)
	require.False(t, early)
	made, err = l.jobs.MakeIf(within(t), spec(), func(context.Context) error { return nil })
	require.NoError(t, err)
	require.NoError(t, l.jobs.Wait(within(t), made, nil), "the same command has its pods made")
	require.Equal(t, made, l.make(t, spec()), "whether it is suspended is not what it is made of")
}
