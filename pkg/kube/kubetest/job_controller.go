package kubetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	jobs    = "jobs"
	jobPoll = 10 * time.Millisecond
)

// RunJobs is the controller of Jobs that are indexed or of one pod, of which suspended ones get none, and the kubelet of their pods, until ctx ends: run is
// what a pod does and returns its exit code; its context ends when the pod is deleted. A pod that fails is made again at
// once, not after ten seconds. With an Operator beside, which puts pods on nodes and attaches their volumes, one that has
// claims waits for that.
func (s *Server) RunJobs(ctx context.Context, run func(context.Context, *corev1.Pod) int32) {
	k := &jobKubelet{
		server: s, run: run, stop: map[types.UID]context.CancelFunc{}, refusals: map[types.UID]refusals{},
	}
	defer k.pods.Wait()
	_ = wait.Until(ctx, wait.Every(jobPoll), func() (bool, error) { // it ends with ctx
		for _, o := range s.store.peekAll(jobs, "") {
			k.reconcile(ctx, decoded[batchv1.Job](s.store, o))
		}
		k.sweep(ctx)
		return false, nil
	})
}

type jobKubelet struct {
	server *Server
	run    func(context.Context, *corev1.Pod) int32
	pods   sync.WaitGroup
	stop   map[types.UID]context.CancelFunc

	refusals map[types.UID]refusals // by Job
}

// sweep starts pods whose volumes are attached by now, ends what pods do that are deleted, or were evicted, and releases those
// that have ended and that no Job counts.
func (k *jobKubelet) sweep(ctx context.Context) {
	running := map[types.UID]bool{}
	for _, o := range k.server.store.peekAll(pods, "") {
		pod := inType[corev1.Pod](k.server.store, o)
		running[pod.UID] = pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
		owner := metav1.GetControllerOf(pod)
		if counted := slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer); counted && pod.Status.Phase == corev1.PodPending {
			running[pod.UID] = k.look(ctx, pod)
			continue
		}
		if !uncounted(pod) || owner == nil {
			continue
		}
		job, exists := typed[batchv1.Job](k.server.store, jobs, pod.Namespace, owner.Name)
		if !exists || job.UID != owner.UID || job.DeletionTimestamp != nil || jobEnded(&job) {
			k.release(pod)
		}
	}
	for uid, stop := range k.stop {
		if !running[uid] {
			stop()
			delete(k.stop, uid)
		}
	}
}

// look starts a pod that waits for its volumes, once they are attached, or ends it if it is deleted. It reports whether it runs.
func (k *jobKubelet) look(ctx context.Context, pod *corev1.Pod) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		modify[corev1.Pod](k.server.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
			if p.UID == pod.UID {
				endPod(p, killed)
			}
		})
	case k.attached(pod):
		modify[corev1.Pod](k.server.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
			if p.UID == pod.UID && p.Status.Phase == corev1.PodPending && p.DeletionTimestamp == nil {
				setRunning(p)
			}
		})
		k.launch(ctx, pod.DeepCopy())
		return true
	}
	return false
}

// attached reports whether a pod is on a node, and all its volumes are attached there.
func (k *jobKubelet) attached(pod *corev1.Pod) bool {
	on := map[string]bool{}
	for _, o := range k.server.store.peekAll(volumeAttachments, "") {
		if a := inType[storagev1.VolumeAttachment](k.server.store, o); a.Spec.NodeName == pod.Spec.NodeName && a.Status.Attached {
			on[*a.Spec.Source.PersistentVolumeName] = true
		}
	}
	return pod.Spec.NodeName != "" && !slices.ContainsFunc(claimsOf(pod), func(name string) bool {
		pvc, _ := typed[corev1.PersistentVolumeClaim](k.server.store, claims, pod.Namespace, name)
		return !on[pvc.Spec.VolumeName]
	})
}

// uncounted reports whether a pod has ended and its Job has not counted it.
func uncounted(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return ended && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// release removes a pod's finalizer, and so the pod if it is deleted.
func (k *jobKubelet) release(pod *corev1.Pod) {
	modify[corev1.Pod](k.server.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
		if p.UID == pod.UID {
			p.Finalizers = nil
		}
	})
}

// round is one look at a Job and its pods. The pod of a Job that is not indexed counts as that of index 0.
type round struct {
	job          *batchv1.Job
	indexed      bool
	retries      int32
	own          map[int][]corev1.Pod
	status       batchv1.JobStatus
	done, failed map[int]bool // indexes
	failing      *batchv1.JobCondition
	counted      []corev1.Pod
}

// reconcile counts the pods of a Job that have ended, makes those that are missing, and finds out how the Job stands. As in
// the real one, a pod counts as failed when it has ended, whoever deleted it, and its index is made again only then.
func (k *jobKubelet) reconcile(ctx context.Context, job batchv1.Job) {
	r := &round{job: &job, own: k.of(&job), status: *job.Status.DeepCopy(), done: indexes(job.Status.CompletedIndexes)}
	if jobEnded(&job) {
		k.expire(&job)
	}
	switch limit := cmp.Or(job.Spec.BackoffLimitPerIndex, job.Spec.BackoffLimit); {
	case limit == nil, job.DeletionTimestamp != nil, jobEnded(&job), job.Spec.Suspend != nil && *job.Spec.Suspend:
		return
	default:
		r.retries, r.indexed, r.failed = *limit, job.Spec.BackoffLimitPerIndex != nil, map[int]bool{}
	}
	if job.Status.FailedIndexes != nil {
		r.failed = indexes(*job.Status.FailedIndexes)
	}
	r.status.Active, r.status.Ready = 0, new(int32(0))
	r.failing = jobCondition(&job, batchv1.JobFailureTarget)
	if r.failing == nil {
		r.failing = r.failJob()
	}
	for i := range int(*job.Spec.Completions) {
		k.index(ctx, r, i)
	}
	if all := len(r.done) + len(r.failed); r.failing == nil && len(r.failed) > 0 && all == int(*job.Spec.Completions) {
		r.failing = failureTarget("FailedIndexes", "Job has failed indexes")
		if !r.indexed {
			r.failing = failureTarget("BackoffLimitExceeded", "Job has reached the specified backoff limit")
		}
	}
	k.write(r)
	for _, pod := range r.counted {
		k.release(&pod)
	}
	if r.failing != nil {
		k.deleteRunning(r)
	}
}

// index looks at the pods of an index.
func (k *jobKubelet) index(ctx context.Context, r *round, i int) {
	var last *corev1.Pod // the one that has ended and is not counted yet
	runs := false
	for _, pod := range r.own[i] {
		switch {
		case uncounted(&pod):
			last = &pod
		case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		default:
			runs = true
			r.status.Active++
			if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning {
				*r.status.Ready++
			}
		}
	}
	failures, more := 0, false
	if last != nil {
		failures, more = r.failures(last)
		switch {
		case last.Status.Phase == corev1.PodSucceeded:
			r.done[i] = true
		case more && failures > int(r.retries):
			r.failed[i] = true
		}
	}
	if !runs && !r.done[i] && !r.failed[i] && r.failing == nil {
		if !k.start(ctx, r.job, podOf(r, i, failures)) {
			return // it is counted when the next one is made
		}
		r.status.Active++
	}
	if last != nil {
		r.counted = append(r.counted, *last)
	}
	if more {
		r.status.Failed++
	}
}

// failures is how often an index has failed with this pod, and whether the pod counts.
func (r *round) failures(pod *corev1.Pod) (n int, counts bool) {
	n, _ = strconv.Atoi(pod.Annotations[batchv1.JobIndexFailureCountAnnotation])
	if pod.Status.Phase != corev1.PodFailed {
		return n, false
	}
	if action, _ := verdict(r.job, pod); action == batchv1.PodFailurePolicyActionIgnore {
		return n, false
	}
	return n + 1, true
}

// failJob is the condition if a pod ended with an exit code that fails its Job.
func (r *round) failJob() *batchv1.JobCondition {
	for _, i := range slices.Sorted(maps.Keys(r.own)) {
		for _, pod := range r.own[i] {
			if pod.Status.Phase != corev1.PodFailed {
				continue
			}
			if action, rule := verdict(r.job, &pod); action == batchv1.PodFailurePolicyActionFailJob {
				return failureTarget("PodFailurePolicy", fmt.Sprintf(
					"Container %s for pod %s/%s failed with exit code %d matching FailJob rule at index %d",
					pod.Spec.Containers[0].Name, pod.Namespace, pod.Name, exitCode(&pod), rule))
			}
		}
	}
	return nil
}

func failureTarget(reason, message string) *batchv1.JobCondition {
	return &batchv1.JobCondition{
		Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
	}
}

// write writes the status. A Job that is to fail has failed once none of its pods runs.
func (k *jobKubelet) write(r *round) {
	r.status.Succeeded, r.status.CompletedIndexes = int32(len(r.done)), listed(r.done) //nolint:gosec // a few
	r.status.FailedIndexes = new(listed(r.failed))
	if r.failing != nil {
		next := *r.failing
		if jobCondition(r.job, batchv1.JobFailureTarget) != nil && r.status.Active == 0 {
			next.Type = batchv1.JobFailed
		}
		next.LastTransitionTime = metav1.NewTime(k.server.cfg.Clock.Now())
		if jobCondition(r.job, next.Type) == nil {
			r.status.Conditions = append(r.status.Conditions, next)
		}
	} else if r.status.Succeeded == *r.job.Spec.Completions {
		for _, c := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			r.status.Conditions = append(r.status.Conditions, batchv1.JobCondition{
				Type: c, Status: corev1.ConditionTrue, Reason: "CompletionsReached",
				LastTransitionTime: metav1.NewTime(k.server.cfg.Clock.Now()),
			})
		}
	}
	modify[batchv1.Job](k.server.store, jobs, r.job.Namespace, r.job.Name, func(j *batchv1.Job) {
		if j.UID == r.job.UID {
			j.Status = r.status
		}
	})
}

// deleteRunning deletes the pods of a Job that have not ended.
func (k *jobKubelet) deleteRunning(r *round) {
	pod, _ := resourceByKind("Pod")
	for _, own := range r.own {
		for _, p := range own {
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			if !ended && p.DeletionTimestamp == nil {
				_, _ = k.server.store.remove(pod, p.Namespace, p.Name, metav1.DeleteOptions{}) // or it is gone already
			}
		}
	}
}

// indexes are those of a list in a status, in which listed writes no ranges.
func indexes(list string) map[int]bool {
	found := map[int]bool{}
	for one := range strings.SplitSeq(list, ",") {
		if i, err := strconv.Atoi(one); err == nil {
			found[i] = true
		}
	}
	return found
}

func listed(of map[int]bool) string {
	var list []string
	for _, i := range slices.Sorted(maps.Keys(of)) {
		list = append(list, strconv.Itoa(i))
	}
	return strings.Join(list, ",")
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

func jobCondition(job *batchv1.Job, of batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == of && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func jobEnded(job *batchv1.Job) bool {
	return jobCondition(job, batchv1.JobComplete) != nil || jobCondition(job, batchv1.JobFailed) != nil
}

func exitCode(pod *corev1.Pod) int32 {
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated != nil {
			return s.State.Terminated.ExitCode
		}
	}
	return 0
}

// verdict is the action of the first rule that a failed pod matches, and its place; Count without one.
func verdict(job *batchv1.Job, pod *corev1.Pod) (action batchv1.PodFailurePolicyAction, rule int) {
	if job.Spec.PodFailurePolicy == nil {
		return batchv1.PodFailurePolicyActionCount, 0
	}
	for i, r := range job.Spec.PodFailurePolicy.Rules {
		for _, on := range r.OnPodConditions {
			if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == on.Type && c.Status == on.Status
			}) {
				return r.Action, i
			}
		}
		if codes := r.OnExitCodes; codes != nil &&
			slices.Contains(codes.Values, exitCode(pod)) == (codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
			return r.Action, i
		}
	}
	return batchv1.PodFailurePolicyActionCount, 0
}

// start makes a pod, and runs it, unless it has to wait for its volumes. It reports whether it could.
func (k *jobKubelet) start(ctx context.Context, job *batchv1.Job, pod corev1.Pod) bool {
	if k.refusedNow(job) {
		return false
	}
	if pod.Status.Phase = corev1.PodPending; len(claimsOf(&pod)) == 0 || !k.server.store.operated() {
		setRunning(&pod)
	}
	obj := untyped(pod)
	obj["apiVersion"], obj["kind"] = "v1", "Pod"
	r, _ := resourceByKind("Pod")
	err := k.server.refused("create", r, pod.GenerateName)
	var made object
	if err == nil {
		made, err = k.server.store.create(r, obj, false)
	}
	if err != nil {
		k.refuse(job, err)
		return false
	}
	delete(k.refusals, job.UID)
	pod.Name, pod.UID = meta(made).GetName(), meta(made).GetUID()
	if pod.Status.Phase == corev1.PodRunning {
		k.launch(ctx, &pod)
	}
	return true
}

// launch runs a pod.
func (k *jobKubelet) launch(ctx context.Context, pod *corev1.Pod) {
	ctx, stop := context.WithCancel(ctx)
	k.stop[pod.UID] = stop
	k.pods.Go(func() {
		defer stop()
		code := k.run(ctx, pod)
		modify[corev1.Pod](k.server.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
			if p.UID == pod.UID && p.Status.Phase == corev1.PodRunning {
				if code == 0 && isEvicted(p) {
					code = killed // whatever it returned meanwhile
				}
				endPod(p, code)
			}
		})
	})
}

func setRunning(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

// podOf is the pod of an index that has failed so often.
func podOf(r *round, index, failures int) corev1.Pod {
	job, template := r.job, r.job.Spec.Template.DeepCopy()
	pod := corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.GenerateName = job.Namespace, job.Name+"-"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	label(&pod, batchv1.ControllerUidLabel, string(job.UID))
	label(&pod, batchv1.JobNameLabel, job.Name)
	annotate(&pod, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(failures))
	if !r.indexed {
		return pod
	}
	pod.GenerateName += fmt.Sprintf("%d-", index)
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", job.Name, index)
	label(&pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(index))
	annotate(&pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(index))
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{
		Name: "JOB_COMPLETION_INDEX", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation),
		}},
	})
	return pod
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

// Evict deletes a pod as the drain of its node does, by the name. It has ended once what it does returns.
func (s *Server) Evict(namespace, name string) {
	modify[corev1.Pod](s.store, pods, namespace, name, func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		})
	})
	r, _ := resourceByKind("Pod")
	_, _ = s.store.remove(r, namespace, name, metav1.DeleteOptions{}) // or it is gone already
}

// killed is the exit code of a process after SIGKILL.
const killed = 137

func isEvicted(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}
