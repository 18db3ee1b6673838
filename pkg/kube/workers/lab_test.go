package workers_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const run = cluster.RunID("20261127t120000-abcdef01")

// lab is an API server without a controller of Jobs.
type lab struct {
	server *kubetest.Server
	core   *typed.Client
	jobs   *workers.Jobs
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{server: kubetest.New(kubetest.Config{Namespace: "tidb"})}
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	var err error
	l.core, err = l.server.Client(&http.Transport{})
	require.NoError(t, err)
	l.jobs = workers.New(l.core)
	l.jobs.Interval = time.Millisecond
	return l
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// soon is for what waits until its context ends.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func spec() workers.Spec {
	return workers.Spec{
		Run: run, Namespace: "tidb", Name: "tisnap-archive-1", Image: "tisnap:v1", Args: []string{"archive", "join", "a"},
		Pods: 3, Indexed: true, Retries: 2, Final: []int{7, 2}, Grace: time.Minute, Keep: time.Hour,
		Secrets: []workers.Secret{{Name: "key", Folder: "/etc/key"}}, Memory: "256Mi", MemoryLimit: "2Gi",
	}
}

func (l *lab) make(t *testing.T, s workers.Spec) workers.Job {
	t.Helper()
	made, err := l.jobs.Make(within(t), s)
	require.NoError(t, err)
	return made
}

func (l *lab) job(t *testing.T) *batchv1.Job {
	t.Helper()
	job, err := l.core.Jobs("tidb").Get(within(t), spec().Name, metav1.GetOptions{})
	require.NoError(t, err)
	return job
}

// status gives the Job a status, as its controller does.
func (l *lab) status(t *testing.T, change func(*batchv1.JobStatus)) {
	t.Helper()
	job := l.job(t)
	change(&job.Status)
	_, err := l.core.Jobs("tidb").UpdateStatus(within(t), job, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func failed(s *batchv1.JobStatus) {
	s.Conditions = append(s.Conditions, batchv1.JobCondition{
		Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy", Message: "exit code 7",
	})
}

func complete(s *batchv1.JobStatus) {
	s.Succeeded = 3
	s.Conditions = append(s.Conditions, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue})
}

// pod is one of the Job's.
func (l *lab) pod(t *testing.T, name string, status corev1.PodStatus) {
	t.Helper()
	job := l.job(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec,
	}
	_, err := l.core.Pods("tidb").Create(within(t), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	pod, err = l.core.Pods("tidb").Get(within(t), name, metav1.GetOptions{})
	require.NoError(t, err)
	pod.Status = status
	_, err = l.core.Pods("tidb").UpdateStatus(within(t), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// deleting deletes a pod that its Job has not counted, and that therefore stays.
func (l *lab) deleting(t *testing.T, name string) {
	t.Helper()
	pod, err := l.core.Pods("tidb").Get(within(t), name, metav1.GetOptions{})
	require.NoError(t, err)
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	_, err = l.core.Pods("tidb").Update(within(t), pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, l.core.Pods("tidb").Delete(within(t), name, metav1.DeleteOptions{}))
}
