package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// jobsContract is what the controller of Jobs has to do for the pods that archive, and those that fill claims.
func jobsContract() map[string]func(*testing.T, system) {
	return map[string]func(*testing.T, system){
		"a Job is taken with each of its fields":               jobIsTaken,
		"pods that end are made again, and counted by reason":  podsAreMadeAgain,
		"an index that fails too often fails the Job":          indexFailsTooOften,
		"an exit code that is final fails the Job":             finalCodeFailsTheJob,
		"a Job is its run's, and goes with its pods":           jobIsItsRuns,
		"a Job that is not allowed yet has no pod":             jobWaitsToBeAllowed,
		"why no pod is made is reported":                       refusedPodsAreReported,
		"pods of an unknown service account end the wait":      unknownAccountEndsTheWait,
		"pods beyond a quota end the wait":                     quotaEndsTheWait,
		"a Job that ended is kept for as long as it asks":      endedJobIsKept,
		"a block volume is its run's, and goes with its claim": blockVolumeIsItsRuns,
		"the volumes of an archive are filled":                 volumesAreFilled,
		"a file system is not bound as a block volume":         fileSystemIsNotBound,
		"a filled volume becomes one with a file system":       filledVolumeIsExchanged,
	}
}

// makesJobs are the Jobs as whoever makes them sees them, by the role in manifests/ alone, in a namespace that takes no pod
// but a restricted one.
func (s system) makesJobs(t *testing.T) *workers.Jobs {
	t.Helper()
	client := s.client
	if s.standIn == nil {
		s.enforce(t, "restricted")
		s.node(t, s.zone("a"))
		account := &unstructured.Unstructured{}
		account.SetAPIVersion("v1")
		account.SetKind("ServiceAccount")
		account.SetName("tisnap")
		objects := append(documents(t, "../../manifests/kustomize/overlays/archive-workers/workers.yaml"), account)
		for _, o := range objects {
			o.SetNamespace(s.namespace)
		}
		client = s.grant(t, objects)
	}
	jobs := client.Jobs()
	jobs.Interval = poll
	return jobs
}

// enforce sets the namespace's Pod Security level, restricted or baseline, and waits until it is in force.
func (s system) enforce(t *testing.T, level string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":%q}}}`, level)
	_, err := s.core.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	baseline := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	eventually(t, "the level is in force", func() bool {
		_, err := s.try(t, baseline)
		if err == nil || strings.Contains(err.Error(), "violates PodSecurity") {
			return (err == nil) == (level == "baseline")
		}
		return false // the namespace's service account comes a moment after it
	})
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// archives is the Job of an archive.
func (s system) archives() workers.Spec {
	return workers.Spec{
		Run: s.run, Namespace: s.namespace, Name: workers.NameOf("tisnap-archive", s.run), Image: "tisnap:v1",
		Args: []string{"archive", "join", "a"}, Env: map[string]string{"TISNAP_PROGRESS": "json"},
		ServiceAccount: "tisnap-worker", Secrets: []workers.Secret{{Name: "tisnap-archive-key", Folder: "/etc/tisnap/archive"}},
		Pods: 3, Indexed: true, Retries: 1, Final: []int{7, 2, 4, 6, 10}, CPU: "500m", Memory: "512Mi", MemoryLimit: "2Gi",
		NodeSelector: map[string]string{"tisnap.io/test": s.namespace}, Tolerations: []string{"dedicated=archive:NoSchedule"},
		Grace: time.Minute, Keep: time.Hour,
	}
}

// fills is the Job of a store whose volumes are filled.
func (s system) fills() workers.Spec {
	spec := s.archives()
	spec.Name, spec.Pods, spec.Indexed, spec.Root, spec.ServiceAccount = "tisnap-fill-4", 1, false, true, ""
	spec.Devices = []workers.Device{{Claim: "tisnap-0123456789ab-store-4-storage-data-dir", Path: "/dev/tisnap-0"}}
	return spec
}

// What --dry-run prints is taken by an API server that ignores no field.
func jobIsTaken(t *testing.T, s system) {
	for _, spec := range []workers.Spec{s.archives(), s.fills()} {
		text, err := workers.Manifest(spec)
		require.NoError(t, err)
		o := &unstructured.Unstructured{}
		require.NoError(t, json.Unmarshal(text, &o.Object))
		api := s.dynamic.Resource(batchv1.SchemeGroupVersion.WithResource("jobs")).Namespace(s.namespace)
		_, err = api.Create(t.Context(), o, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
		require.NoError(t, err)
	}
	list, err := s.core.BatchV1().Jobs(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

// Pods are evicted more often than one may fail; one fails, and one is deleted by hand.
func podsAreMadeAgain(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	s.runJobs(t, func(ctx context.Context, pod *corev1.Pod, index, n int) int32 {
		switch {
		case index == 0 && n <= 2:
			return s.evicted(ctx, t, pod)
		case index == 1 && n == 1:
			return 1
		case index == 2 && n == 1:
			return s.deleted(ctx, t, pod)
		}
		return 0
	})
	made, err := jobs.Make(within(t), s.archives())
	require.NoError(t, err)
	var last workers.State
	require.NoError(t, jobs.Wait(within(t), made, func(s workers.State) { last = s }))
	require.Equal(t, 3, last.Succeeded)
	require.Equal(t, 2, last.Failed, "one that fails, and one that is deleted")
}

// A pod that is deleted by hand uses up a retry.
func indexFailsTooOften(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	s.runJobs(t, func(ctx context.Context, pod *corev1.Pod, index, n int) int32 {
		switch {
		case index > 0:
			return 0
		case n == 1:
			return s.deleted(ctx, t, pod)
		}
		return 1
	})
	made, err := jobs.Make(within(t), s.archives())
	require.NoError(t, err)
	err = jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "FailedIndexes")
	var last workers.State
	eventually(t, "all pods are counted", func() bool {
		last, err = jobs.State(within(t), made)
		require.NoError(t, err)
		return last.Failed == 2
	})
	require.Equal(t, 2, last.Succeeded, "the others finish first")
	require.True(t, last.Broken)
}

// The pods that run are ended; the same command makes another Job then.
func finalCodeFailsTheJob(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	var fixed atomic.Bool
	s.runJobs(t, func(ctx context.Context, _ *corev1.Pod, index, _ int) int32 {
		switch {
		case fixed.Load():
			return 0
		case index == 1:
			return 7
		}
		return terminated(ctx)
	})
	made, err := jobs.Make(within(t), s.archives())
	require.NoError(t, err)
	err = jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "PodFailurePolicy: Container tisnap for pod "+s.namespace+"/")
	require.ErrorContains(t, err, "failed with exit code 7 matching FailJob rule at index 1")
	require.ErrorContains(t, err, "container tisnap ended with code 7")
	eventually(t, "it has failed once its pods have ended", func() bool {
		job, err := s.core.BatchV1().Jobs(s.namespace).Get(t.Context(), made.Name, metav1.GetOptions{})
		require.NoError(t, err)
		found := map[batchv1.JobConditionType]string{}
		for _, c := range job.Status.Conditions {
			found[c.Type] = c.Reason
		}
		if found[batchv1.JobFailed] == "" {
			return false
		}
		require.Equal(t, map[batchv1.JobConditionType]string{
			batchv1.JobFailureTarget: "PodFailurePolicy", batchv1.JobFailed: "PodFailurePolicy",
		}, found)
		return true
	})
	for _, pod := range s.pods(t, batchv1.ControllerUidLabel+"="+made.UID) {
		require.Equal(t, corev1.PodFailed, pod.Status.Phase)
	}
	fixed.Store(true)
	again, err := jobs.Make(within(t), s.archives())
	require.NoError(t, err)
	require.NotEqual(t, made.UID, again.UID)
	require.NoError(t, jobs.Wait(within(t), again, nil))
}

func jobIsItsRuns(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	s.runJobs(t, func(ctx context.Context, _ *corev1.Pod, _, _ int) int32 { return terminated(ctx) })
	made, err := jobs.Make(within(t), s.archives())
	require.NoError(t, err)
	same, err := jobs.Make(within(t), s.archives())
	require.NoError(t, err)
	require.Equal(t, made, same)
	other := s.archives()
	other.Run += "-2"
	_, err = jobs.Make(within(t), other)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	found, err := jobs.Find(within(t), other.Run, s.namespace, made.Name)
	require.NoError(t, err)
	require.Nil(t, found)
	eventually(t, "all pods run", func() bool {
		state, err := jobs.State(within(t), made)
		require.NoError(t, err)
		return state.Ready == other.Pods
	})
	stranger := made
	stranger.UID = "another"
	require.NoError(t, jobs.Remove(within(t), stranger))
	stranger = made
	stranger.Run = other.Run
	err = jobs.Remove(within(t), stranger)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	own := batchv1.ControllerUidLabel + "=" + made.UID
	for _, pod := range s.pods(t, own) {
		require.Nil(t, pod.DeletionTimestamp)
	}
	require.Len(t, s.pods(t, own), other.Pods)
	require.NoError(t, jobs.Remove(within(t), made))
	require.Empty(t, s.pods(t, own), "they have ended by then")
	_, err = jobs.State(within(t), made)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func refusedPodsAreReported(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	if s.standIn != nil {
		s.standIn.Refuse(kubetest.Refusal{
			Verb: "create", Resource: "pods", Status: http.StatusForbidden, Message: `violates PodSecurity "restricted:latest"`,
		})
	}
	spec := s.archives()
	spec.Root = true
	s.endsTheWait(t, jobs, spec, `violates PodSecurity "restricted:latest"`, "enforce=baseline")
}

// endsTheWait waits for a Job whose pods are refused.
func (s system) endsTheWait(t *testing.T, jobs *workers.Jobs, spec workers.Spec, why, hint string) {
	t.Helper()
	s.runJobs(t, func(context.Context, *corev1.Pod, int, int) int32 { return 0 })
	made, err := jobs.Make(within(t), spec)
	require.NoError(t, err)
	jobs.RefusedWithin = 2 * time.Second
	err = jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no pod of it can be made: FailedCreate: Error creating: ")
	require.ErrorContains(t, err, why)
	require.Contains(t, failure.HintOf(err), hint)
	state, err := jobs.State(within(t), made)
	require.NoError(t, err)
	require.Len(t, state.Waiting, 1)
	require.Contains(t, state.Waiting[0], "no pod has been made: FailedCreate: Error creating: ")
}

func unknownAccountEndsTheWait(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	if s.standIn != nil {
		s.standIn.Refuse(kubetest.Refusal{
			Verb: "create", Resource: "pods", Status: http.StatusForbidden,
			Message: `error looking up service account tidb/stranger: serviceaccount "stranger" not found`,
		})
	}
	spec := s.archives()
	spec.ServiceAccount = "stranger"
	s.endsTheWait(t, jobs, spec, "error looking up service account ", "--worker-service-account")
}

func quotaEndsTheWait(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	hard := corev1.ResourceList{"count/pods": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Name: "none", Namespace: s.namespace}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}
	if s.standIn != nil {
		quota.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: hard}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(quota)
		require.NoError(t, err)
		require.NoError(t, s.standIn.Put(&unstructured.Unstructured{Object: object}))
	} else {
		api := s.core.CoreV1().ResourceQuotas(s.namespace)
		_, err := api.Create(t.Context(), quota, metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, "the quota is in force", func() bool {
			made, err := api.Get(t.Context(), quota.Name, metav1.GetOptions{})
			require.NoError(t, err)
			return len(made.Status.Hard) > 0
		})
	}
	s.endsTheWait(t, jobs, s.archives(), "exceeded quota: none", "describe resourcequota")
}

func endedJobIsKept(t *testing.T, s system) {
	jobs := s.makesJobs(t)
	s.runJobs(t, func(context.Context, *corev1.Pod, int, int) int32 { return 0 })
	long, short := s.archives(), s.archives()
	short.Name, short.Keep = short.Name+"-2", 2*time.Second
	kept, err := jobs.Make(within(t), long)
	require.NoError(t, err)
	require.NoError(t, jobs.Wait(within(t), kept, nil))
	made, err := jobs.Make(within(t), short)
	require.NoError(t, err)
	require.NoError(t, jobs.Wait(within(t), made, nil))
	eventually(t, "it is deleted with its pods", func() bool {
		found, err := jobs.Find(within(t), s.run, s.namespace, made.Name)
		require.NoError(t, err)
		return found == nil && len(s.pods(t, batchv1.ControllerUidLabel+"="+made.UID)) == 0
	})
	state, err := jobs.State(within(t), kept)
	require.NoError(t, err)
	require.True(t, state.Done)
	require.Len(t, s.pods(t, batchv1.ControllerUidLabel+"="+kept.UID), long.Pods)
}

// The pods of an archive are taken at the level restricted. Those that fill devices run as root, which baseline takes: of
// devices by claims no level takes notice.
func TestWorkers_PodSecurity(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	try := func(spec workers.Spec) error {
		spec.ServiceAccount = ""
		job, err := workers.Object(spec)
		require.NoError(t, err)
		_, err = s.try(t, job.Spec.Template)
		return err
	}
	s.enforce(t, "restricted")
	require.NoError(t, try(s.archives()))
	err := try(s.fills())
	require.ErrorContains(t, err, "violates PodSecurity")
	require.ErrorContains(t, err, "runAsNonRoot != true")
	require.ErrorContains(t, err, "runAsUser=0")
	s.enforce(t, "baseline")
	require.NoError(t, try(s.fills()))
}
