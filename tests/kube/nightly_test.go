package kube_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// of decodes the object of a kind among those that were rendered of a folder.
func of[T any](t *testing.T, from, kind string) *T {
	t.Helper()
	for _, o := range rendered(t)[from] {
		if o.GetKind() != kind {
			continue
		}
		text, err := o.MarshalJSON()
		require.NoError(t, err)
		into := new(T)
		require.NoError(t, json.Unmarshal(text, into))
		return into
	}
	require.Fail(t, "not there", "%s of %s", kind, from)
	return nil
}

// daily is the schedule of each day at the time of day of at.
func daily(at time.Time) string {
	return fmt.Sprintf("%d %d * * *", at.UTC().Minute(), at.UTC().Hour())
}

// nightly makes the CronJob of manifests/ as it would be on the day after its last run, with a schedule of its own.
func (s system) nightly(t *testing.T, name string, due time.Time) {
	t.Helper()
	s.nightlyOn(t, name, due, nil)
}

// nightlyOn is nightly with a choice of nodes.
func (s system) nightlyOn(t *testing.T, name string, due time.Time, nodes map[string]string) {
	t.Helper()
	o := of[batchv1.CronJob](t, "kustomize/nightly", "CronJob")
	o.Name, o.Namespace, o.Spec.Schedule = name, s.namespace, daily(due)
	o.Spec.JobTemplate.Spec.Template.Spec.NodeSelector = nodes
	api := s.core.BatchV1().CronJobs(s.namespace)
	_, err := api.Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := api.Get(t.Context(), name, metav1.GetOptions{})
		require.NoError(t, err)
		now.Status.LastScheduleTime = &metav1.Time{Time: due.Add(-24 * time.Hour)}
		_, err = api.UpdateStatus(t.Context(), now, metav1.UpdateOptions{})
		return err
	}))
}

// openNightly is a system with the service account of the CronJob.
func openNightly(t *testing.T) system {
	t.Helper()
	s := openReal(t)
	_, err := s.core.CoreV1().ServiceAccounts(s.namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "tisnap"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return s
}

// jobs are those of a CronJob.
func (s system) jobs(t *testing.T, cronJob string) []batchv1.Job {
	t.Helper()
	list, err := s.core.BatchV1().Jobs(s.namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	return slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return j.OwnerReferences[0].Name != cronJob })
}

// started waits for a pod of the CronJob's only Job that is none of those seen.
func (s system) started(t *testing.T, cronJob string, seen ...string) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, "a pod is made", func() bool {
		jobs := s.jobs(t, cronJob)
		if len(jobs) != 1 {
			return false
		}
		for _, pod := range s.pods(t, "batch.kubernetes.io/job-name="+jobs[0].Name) {
			if !slices.Contains(seen, pod.Name) && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending {
				found = &pod
				return true
			}
		}
		return false
	})
	return found
}

// ends plays the kubelet of a pod whose backup has ended.
func (s system) ends(t *testing.T, pod *corev1.Pod, code int32, conditions ...corev1.PodCondition) {
	t.Helper()
	at := metav1.Now()
	ended := func(name string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, StartedAt: at, FinishedAt: at},
		}}}
	}
	s.setStatus(t, pod, func(status *corev1.PodStatus) {
		status.Phase, status.InitContainerStatuses = corev1.PodFailed, ended("backup")
		if code == 0 {
			status.Phase, status.ContainerStatuses = corev1.PodSucceeded, ended("prune")
		}
		status.Conditions = append(status.Conditions, conditions...)
	})
}

func (s system) eventuallyJob(t *testing.T, cronJob string, condition batchv1.JobConditionType, reason string) {
	t.Helper()
	eventually(t, string(condition), func() bool {
		for _, c := range s.jobs(t, cronJob)[0].Status.Conditions {
			if c.Type == condition && c.Status == corev1.ConditionTrue && (reason == "" || c.Reason == reason) {
				return true
			}
		}
		return false
	})
}

func TestNightly_MissedForThreeHours_IsMadeUp_AndForFive_IsNot(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	s.nightly(t, "late", time.Now().Add(-5*time.Hour))
	s.nightly(t, "missed", time.Now().Add(-3*time.Hour))
	eventually(t, "it is made up", func() bool { return len(s.jobs(t, "missed")) == 1 })
	require.Empty(t, s.jobs(t, "late"))
}

func TestNightly_WhileOneRuns_NoOtherStarts(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	s.nightly(t, "nightly", time.Now().Add(-3*time.Hour))
	pod := s.started(t, "nightly")
	api := s.core.BatchV1().CronJobs(s.namespace)
	change := func(o *batchv1.CronJob) { o.Spec.Schedule = daily(time.Now().Add(-time.Hour)) } // the next one is due while the first one runs
	for _, change := range []func(*batchv1.CronJob){change, func(o *batchv1.CronJob) {
		o.Annotations = map[string]string{"test": "any change but that of the schedule has the controller see what was missed"}
	}} {
		require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			o, err := api.Get(t.Context(), "nightly", metav1.GetOptions{})
			require.NoError(t, err)
			change(o)
			_, err = api.Update(t.Context(), o, metav1.UpdateOptions{})
			return err
		}))
	}
	eventually(t, "it is reported that one runs", func() bool {
		list, err := s.core.CoreV1().Events(s.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=JobAlreadyActive"})
		require.NoError(t, err)
		return len(list.Items) > 0
	})
	require.Len(t, s.jobs(t, "nightly"), 1)
	s.ends(t, pod, 0)
	eventually(t, "the other starts now", func() bool { return len(s.jobs(t, "nightly")) == 2 })
}

// A pod that is evicted, and one that fails in a way that may pass, are made again the same night.
func TestNightly_PodEvictedOrFailed_IsMadeAgain(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	s.nightly(t, "nightly", time.Now().Add(-3*time.Hour))
	first := s.started(t, "nightly")
	s.ends(t, first, 143, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI"})
	second := s.started(t, "nightly", first.Name)
	require.Zero(t, s.jobs(t, "nightly")[0].Status.Failed, "an eviction is no failed try")
	s.ends(t, second, 6) // the storage is locked
	third := s.started(t, "nightly", first.Name, second.Name)
	s.ends(t, third, 5) // a store is not ready
	fourth := s.started(t, "nightly", first.Name, second.Name, third.Name)
	s.ends(t, fourth, 0)
	s.eventuallyJob(t, "nightly", batchv1.JobComplete, "")
}

// An error that stays ends the night at once.
func TestNightly_ErrorThatStays_EndsTheJob(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	s.nightly(t, "nightly", time.Now().Add(-3*time.Hour))
	s.ends(t, s.started(t, "nightly"), 4)
	s.eventuallyJob(t, "nightly", batchv1.JobFailed, batchv1.JobReasonPodFailurePolicy)
}

// A node that is lost takes its pod along; another one is made.
func TestNightly_NodeLost_PodIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	node := s.node(t, s.zone("a"))
	o := of[batchv1.CronJob](t, "kustomize/nightly", "CronJob")
	o.Spec.JobTemplate.Spec.Template.Spec.NodeSelector = map[string]string{"tisnap.io/test": s.namespace}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: o.Spec.JobTemplate.Spec}
	_, err := s.core.BatchV1().Jobs(s.namespace).Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	onNode := func() []corev1.Pod { return s.pods(t, "batch.kubernetes.io/job-name=nightly") }
	eventually(t, "the pod is on the node", func() bool { return len(onNode()) == 1 && onNode()[0].Spec.NodeName == node })
	first := onNode()[0]
	s.runs(t, &first)
	require.NoError(t, s.core.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
	eventually(t, "another pod is made", func() bool {
		return slices.ContainsFunc(onNode(), func(p corev1.Pod) bool { return p.UID != first.UID && p.DeletionTimestamp == nil })
	})
	now, err := s.core.BatchV1().Jobs(s.namespace).Get(t.Context(), "nightly", metav1.GetOptions{})
	require.NoError(t, err)
	require.Empty(t, slices.DeleteFunc(now.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type != batchv1.JobFailed }))
}

// A drain waits for a restore: its budget refuses the eviction.
func TestRestoreJob_Eviction_IsRefusedByItsBudget(t *testing.T) {
	t.Parallel()
	s := openNightly(t)
	budget, job := of[policyv1.PodDisruptionBudget](t, "kustomize/restore", "PodDisruptionBudget"), of[batchv1.Job](t, "kustomize/restore", "Job")
	budget.Namespace, job.Namespace = s.namespace, s.namespace
	_, err := s.core.PolicyV1().PodDisruptionBudgets(s.namespace).Create(t.Context(), budget, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = s.core.BatchV1().Jobs(s.namespace).Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	of := "batch.kubernetes.io/job-name=" + job.Name
	eventually(t, "a pod is made", func() bool { return len(s.pods(t, of)) == 1 })
	pod := s.pods(t, of)[0]
	s.runs(t, &pod)
	eventually(t, "the budget counts it", func() bool {
		now, err := s.core.PolicyV1().PodDisruptionBudgets(s.namespace).Get(t.Context(), budget.Name, metav1.GetOptions{})
		return err == nil && now.Status.CurrentHealthy == 1
	})
	err = s.core.CoreV1().Pods(s.namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: s.namespace}})
	requireReason(t, metav1.StatusReasonTooManyRequests, err)
	require.ErrorContains(t, err, "disruption budget")
}
