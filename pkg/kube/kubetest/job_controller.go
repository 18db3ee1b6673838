package kubetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	jobs    = "jobs"
	jobPoll = 10 * time.Millisecond
)

// RunJobs is the controller of indexed Jobs, and the kubelet of their pods, until ctx ends: run is what a pod does and
// returns its exit code; its context ends with the pod. A pod that fails is made again at once, not after ten seconds.
func (s *Server) RunJobs(ctx context.Context, run func(context.Context, *corev1.Pod) int32) {
	k := &jobKubelet{server: s, run: run, stop: map[types.UID]context.CancelFunc{}}
	defer k.pods.Wait()
	_ = wait.Until(ctx, wait.Every(jobPoll), func() (bool, error) { // it ends with ctx
		for _, o := range s.store.peekAll(jobs, "") {
			k.reconcile(ctx, decoded[batchv1.Job](s.store, o))
		}
		k.sweep()
		return false, nil
	})
}

type jobKubelet struct {
	server *Server
	run    func(context.Context, *corev1.Pod) int32
	pods   sync.WaitGroup
	stop   map[types.UID]context.CancelFunc
}

// sweep ends what pods do that are gone, or were evicted.
func (k *jobKubelet) sweep() {
	there := map[types.UID]bool{}
	for _, o := range k.server.store.peekAll(pods, "") {
		there[meta(o).GetUID()] = inType[corev1.Pod](k.server.store, o).Status.Phase == corev1.PodRunning
	}
	for uid, stop := range k.stop {
		if !there[uid] {
			stop()
			delete(k.stop, uid)
		}
	}
}

// reconcile makes the pods of a Job that are missing, and finds out how the Job stands.
func (k *jobKubelet) reconcile(ctx context.Context, job batchv1.Job) {
	if job.Spec.BackoffLimitPerIndex == nil || job.DeletionTimestamp != nil || jobEnded(&job) {
		return
	}
	own := k.of(&job)
	var status batchv1.JobStatus
	var failedIndexes []string
	ready := int32(0)
	for i := range int(*job.Spec.Completions) {
		failures, active, done := int32(0), false, false
		for _, pod := range own[i] {
			switch action := verdict(&job, &pod); {
			case pod.Status.Phase == corev1.PodSucceeded:
				done = true
			case pod.Status.Phase != corev1.PodFailed:
				active = true
				ready++
			case action == batchv1.PodFailurePolicyActionFailJob:
				k.fail(&job, "PodFailurePolicy", fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d matching FailJob rule",
					pod.Spec.Containers[0].Name, pod.Namespace, pod.Name, exitCode(&pod)))
				return
			case action != batchv1.PodFailurePolicyActionIgnore:
				failures++
			}
		}
		status.Failed += failures
		switch {
		case done:
			status.Succeeded++
		case failures > *job.Spec.BackoffLimitPerIndex:
			failedIndexes = append(failedIndexes, strconv.Itoa(i))
		case !active:
			k.start(ctx, &job, i)
			status.Active++
		default:
			status.Active++
		}
	}
	if int(status.Succeeded)+len(failedIndexes) == int(*job.Spec.Completions) && len(failedIndexes) > 0 {
		k.fail(&job, "FailedIndexes", "Job has failed indexes")
		return
	}
	modify[batchv1.Job](k.server.store, jobs, job.Namespace, job.Name, func(j *batchv1.Job) {
		if j.UID != job.UID {
			return
		}
		j.Status.Active, j.Status.Succeeded, j.Status.Failed, j.Status.Ready = status.Active, status.Succeeded, status.Failed, &ready
		if status.Succeeded == *job.Spec.Completions {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
		}
	})
}

// of are a Job's pods by index.
func (k *jobKubelet) of(job *batchv1.Job) map[int][]corev1.Pod {
	own := map[int][]corev1.Pod{}
	for _, o := range k.server.store.peekAll(pods, job.Namespace) {
		if owner := metav1.GetControllerOf(meta(o)); owner == nil || owner.UID != job.UID {
			continue
		}
		pod := decoded[corev1.Pod](k.server.store, o)
		index, _ := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		own[index] = append(own[index], pod)
	}
	return own
}

func jobEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

func exitCode(pod *corev1.Pod) int32 {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.ExitCode
		}
	}
	return 0
}

// verdict is the action of the first rule that a failed pod matches; Count without one.
func verdict(job *batchv1.Job, pod *corev1.Pod) batchv1.PodFailurePolicyAction {
	if job.Spec.PodFailurePolicy == nil {
		return batchv1.PodFailurePolicyActionCount
	}
	for _, rule := range job.Spec.PodFailurePolicy.Rules {
		for _, on := range rule.OnPodConditions {
			if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == on.Type && c.Status == on.Status
			}) {
				return rule.Action
			}
		}
		if codes := rule.OnExitCodes; codes != nil &&
			slices.Contains(codes.Values, exitCode(pod)) == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
			return rule.Action
		}
	}
	return batchv1.PodFailurePolicyActionCount
}

// fail ends a Job, and its pods that run.
func (k *jobKubelet) fail(job *batchv1.Job, reason, message string) {
	r, _ := resourceByKind("Pod")
	for _, own := range k.of(job) {
		for _, pod := range own {
			if pod.Status.Phase == corev1.PodRunning {
				_, _ = k.server.store.remove(r, pod.Namespace, pod.Name, metav1.DeleteOptions{}) // or it is gone already
			}
		}
	}
	modify[batchv1.Job](k.server.store, jobs, job.Namespace, job.Name, func(j *batchv1.Job) {
		if j.UID == job.UID {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
				Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			})
		}
	})
}

// start makes the pod of an index, and runs it.
func (k *jobKubelet) start(ctx context.Context, job *batchv1.Job, index int) {
	template := job.Spec.Template.DeepCopy()
	pod := corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = job.Namespace, fmt.Sprintf("%s-%d-", job.Name, index)
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", job.Name, index)
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	label(&pod, batchv1.ControllerUidLabel, string(job.UID))
	label(&pod, batchv1.JobNameLabel, job.Name)
	annotate(&pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(index))
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env,
		corev1.EnvVar{Name: "JOB_COMPLETION_INDEX", Value: strconv.Itoa(index)})
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	obj := untyped(pod)
	obj["apiVersion"], obj["kind"] = "v1", "Pod"
	r, _ := resourceByKind("Pod")
	made, err := k.server.store.create(r, obj, false)
	if err != nil {
		return // its namespace is being deleted
	}
	uid := meta(made).GetUID()
	pod.Name, pod.UID = meta(made).GetName(), uid
	ctx, stop := context.WithCancel(ctx)
	k.stop[uid] = stop
	k.pods.Go(func() {
		defer stop()
		code := k.run(ctx, &pod)
		modify[corev1.Pod](k.server.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
			if p.UID == uid && p.Status.Phase == corev1.PodRunning {
				endPod(p, code)
			}
		})
	})
}

func endPod(p *corev1.Pod, code int32) {
	if p.Status.Phase = corev1.PodSucceeded; code != 0 {
		p.Status.Phase = corev1.PodFailed
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error"},
		},
	}}
}

// Evict ends a pod as the drain of its node does, by the name.
func (s *Server) Evict(namespace, name string) {
	modify[corev1.Pod](s.store, pods, namespace, name, func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
		endPod(p, 137)
	})
}
