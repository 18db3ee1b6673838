package kube_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/tisnap/tisnap/pkg/wait"
)

// runJobs runs the pods of Jobs until the test ends: what the n-th pod of an index does is up to run, whose context ends when
// the pod is deleted.
func (s system) runJobs(t *testing.T, run func(ctx context.Context, pod *corev1.Pod, index, n int) int32) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done, mu = sync.WaitGroup{}, sync.Mutex{}
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	made := map[int]int{}
	counted := func(ctx context.Context, pod *corev1.Pod) int32 {
		index, _ := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation]) // 0 without
		mu.Lock()
		made[index]++
		n := made[index]
		mu.Unlock()
		return run(ctx, pod, index, n)
	}
	done.Go(func() {
		if s.standIn != nil {
			s.standIn.RunJobs(ctx, counted)
			return
		}
		n := &jobNode{core: s.core, namespace: s.namespace, run: counted, stop: map[types.UID]context.CancelFunc{}}
		n.work(ctx)
	})
}

// evicted waits until the pod, which the drain of its node evicts, has to end.
func (s system) evicted(ctx context.Context, t *testing.T, pod *corev1.Pod) int32 {
	t.Helper()
	if s.standIn != nil {
		s.standIn.Evict(pod.Namespace, pod.Name)
	} else {
		assert.NoError(t, s.core.CoreV1().Pods(pod.Namespace).EvictV1(context.WithoutCancel(ctx), &policyv1.Eviction{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		}))
	}
	return terminated(ctx)
}

// deleted waits until the pod, which someone deletes, has to end. ctx ends with the pod, at times before the answer is there.
func (s system) deleted(ctx context.Context, t *testing.T, pod *corev1.Pod) int32 {
	t.Helper()
	assert.NoError(t, s.core.CoreV1().Pods(pod.Namespace).Delete(context.WithoutCancel(ctx), pod.Name, metav1.DeleteOptions{}))
	return terminated(ctx)
}

// terminated works until it gets SIGTERM, and returns the exit code of that.
func terminated(ctx context.Context) int32 {
	<-ctx.Done()
	return 143
}

// jobNode plays the kubelet of the pods of Jobs in a namespace of a real control plane.
type jobNode struct {
	core      kubernetes.Interface
	namespace string
	run       func(context.Context, *corev1.Pod) int32
	stop      map[types.UID]context.CancelFunc // of the pods that were started
	pods      sync.WaitGroup
}

func (n *jobNode) work(ctx context.Context) {
	defer n.pods.Wait()
	_ = wait.Until(ctx, wait.Every(poll), func() (bool, error) { // it ends with ctx
		list, err := n.core.CoreV1().Pods(n.namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			n.look(ctx, &list.Items[i])
		}
		return false, nil
	})
}

// look starts a pod that is on a node, ends it when it is deleted, and removes it once it has ended.
func (n *jobNode) look(ctx context.Context, pod *corev1.Pod) {
	stop, started := n.stop[pod.UID]
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.Spec.NodeName == "":
	case !started && !ended:
		n.start(ctx, pod)
	case pod.DeletionTimestamp != nil && ended:
		now := int64(0)
		_ = n.core.CoreV1().Pods(n.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		}) // or it is gone
	case pod.DeletionTimestamp != nil:
		stop()
	}
}

func (n *jobNode) start(ctx context.Context, pod *corev1.Pod) {
	works, stop := context.WithCancel(ctx)
	n.stop[pod.UID] = stop
	n.pods.Go(func() {
		defer stop()
		n.write(ctx, pod, func(s *corev1.PodStatus) {
			s.Phase = corev1.PodRunning
			s.Conditions = append(s.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		})
		code := n.run(works, pod)
		// An hour ago: or the controller waits for ten seconds, and each time longer, before it makes another one.
		at := metav1.NewTime(time.Now().Add(-time.Hour))
		n.write(ctx, pod, func(s *corev1.PodStatus) {
			if s.Phase = corev1.PodSucceeded; code != 0 {
				s.Phase = corev1.PodFailed
			}
			s.ContainerStatuses = []corev1.ContainerStatus{{
				Name: pod.Spec.Containers[0].Name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: code, Reason: "Error", StartedAt: at, FinishedAt: at,
				}},
			}}
		})
	})
}

// write changes a pod's status, which others write, too. It does nothing if the pod is gone or the test ends.
func (n *jobNode) write(ctx context.Context, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	api := n.core.CoreV1().Pods(n.namespace)
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := api.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || now.UID != pod.UID {
			return err
		}
		change(&now.Status)
		_, err = api.UpdateStatus(ctx, now, metav1.UpdateOptions{})
		return err
	})
}
