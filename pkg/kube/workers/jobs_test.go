package workers_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

func TestMake_SameRunAndSpec_IsTheSameJob(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	require.Equal(t, made, l.make(t, spec()))
	l.status(t, complete)
	require.Equal(t, made, l.make(t, spec()), "what is done is not done again")
	found, err := l.jobs.Find(within(t), run, "tidb", spec().Name)
	require.NoError(t, err)
	require.Equal(t, &made, found)
}

func TestMake_OfAnotherRun_Conflict(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	other := spec()
	other.Run, other.Image = "another", "tisnap:v2"
	_, err := l.jobs.Make(within(t), other)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Equal(t, made.UID, string(l.job(t).UID))
	found, err := l.jobs.Find(within(t), other.Run, "tidb", spec().Name)
	require.NoError(t, err)
	require.Nil(t, found)
}

func TestMake_OtherSpecOrFailed_IsMadeAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.make(t, spec())
	l.pod(t, "old", corev1.PodStatus{Phase: corev1.PodPending})
	other := spec()
	other.Image = "tisnap:v2"
	second := l.make(t, other)
	require.NotEqual(t, first.UID, second.UID)
	require.Equal(t, "tisnap:v2", l.job(t).Spec.Template.Spec.Containers[0].Image)
	pods, err := l.core.Pods("tidb").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items, "those of the Job before ended first")
	l.status(t, failed)
	require.NotEqual(t, second.UID, l.make(t, other).UID)
}

// A Job is not made when that is not allowed any more, and is removed if that is seen only afterwards.
func TestMakeIf_NotAllowed_LeavesNoJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after int // this many calls it is not allowed
		there bool
	}{
		"before": {0, false}, "afterwards": {1, false}, "once another one has gone": {1, true}, "of one that is found": {1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := spec()
			if c.there {
				l.make(t, s)
			}
			if name == "once another one has gone" {
				s.Image = "tisnap:v2"
			}
			asked := 0
			_, err := l.jobs.MakeIf(within(t), s, func(context.Context) error {
				if asked++; asked <= c.after {
					return nil
				}
				return failure.New(failure.Conflict, "fill volumes", "", "another command has")
			})
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.Equal(t, c.after+1, asked)
			require.Empty(t, l.server.List("jobs", "tidb"))
		})
	}
}

func TestMakeIf_AnswerIsLost_IsAskedForAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	asked := 0
	var why []string
	l.jobs.Waits = func(err error) { why = append(why, err.Error()) }
	made, err := l.jobs.MakeIf(within(t), spec(), func(context.Context) error {
		if asked++; asked%2 == 1 {
			return failure.New(failure.Limited, "read claim", "", "the server is busy")
		}
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, made.UID, string(l.job(t).UID))
	require.Equal(t, 4, asked)
	require.Equal(t, []string{"read claim: the server is busy", "read claim: the server is busy"}, why)
}

func TestMake_UnusableSpec_Usage(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, change := range map[string]func(*workers.Spec){
		"no run":      func(s *workers.Spec) { s.Run = "" },
		"long name":   func(s *workers.Spec) { s.Name = strings.Repeat("a", workers.MaxName+1) },
		"two plain":   func(s *workers.Spec) { s.Indexed = false },
		"no quantity": func(s *workers.Spec) { s.Memory = "much" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := spec()
			change(&s)
			_, err := l.jobs.Make(within(t), s)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
		})
	}
}

func TestObject_FailuresAndSecurity(t *testing.T) {
	t.Parallel()
	s := spec()
	s.Devices, s.Tolerations = []workers.Device{{Claim: "data-0", Path: "/dev/tisnap"}}, []string{"dedicated=tikv:NoSchedule", "spot", ":"}
	job, err := workers.Object(s)
	require.NoError(t, err)
	assert.Equal(t, int32(2), *job.Spec.BackoffLimitPerIndex)
	assert.Nil(t, job.Spec.BackoffLimit)
	rules := job.Spec.PodFailurePolicy.Rules
	require.Len(t, rules, 2)
	assert.Equal(t, batchv1.PodFailurePolicyActionIgnore, rules[0].Action)
	assert.Equal(t, corev1.DisruptionTarget, rules[0].OnPodConditions[0].Type)
	assert.Equal(t, batchv1.PodFailurePolicyActionFailJob, rules[1].Action)
	assert.Equal(t, []int32{2, 7}, rules[1].OnExitCodes.Values)
	pod := job.Spec.Template.Spec
	assert.False(t, *pod.AutomountServiceAccountToken)
	assert.True(t, *pod.SecurityContext.RunAsNonRoot)
	c := pod.Containers[0]
	assert.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	assert.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	assert.Equal(t, []corev1.VolumeDevice{{Name: "device-data-0", DevicePath: "/dev/tisnap"}}, c.VolumeDevices)
	assert.Equal(t, []corev1.Toleration{
		{Key: "dedicated", Operator: corev1.TolerationOpEqual, Value: "tikv", Effect: corev1.TaintEffectNoSchedule},
		{Key: "spot", Operator: corev1.TolerationOpExists},
		{Operator: corev1.TolerationOpExists}, // of any taint
	}, pod.Tolerations)
	assert.Nil(t, pod.Affinity)
	s.Indexed, s.Pods, s.Root, s.Within = false, 1, true, time.Hour
	s.NodeSelector, s.Beside = map[string]string{"disk": "any"}, &podnodes.Rules{
		NodeSelector: map[string]string{"disk": "ssd"}, Tolerations: []corev1.Toleration{{Key: "tikv"}},
	}
	job, err = workers.Object(s)
	require.NoError(t, err)
	beside := job.Spec.Template.Spec
	assert.Equal(t, s.NodeSelector, beside.NodeSelector, "both count")
	assert.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "disk", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}},
	}}}, beside.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	assert.Equal(t, append(pod.Tolerations, corev1.Toleration{Key: "tikv"}), beside.Tolerations)
	assert.Equal(t, int32(2), *job.Spec.BackoffLimit)
	assert.Nil(t, job.Spec.CompletionMode)
	assert.Equal(t, int64(3600), *job.Spec.ActiveDeadlineSeconds)
	assert.Zero(t, *job.Spec.Template.Spec.SecurityContext.RunAsUser)
}

func TestWait_UntilAllIsDone_WithWhyPodsDoNotRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	l.pod(t, "stuck", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"},
	}})
	err := l.jobs.Wait(soon(t), made, nil)
	require.ErrorContains(t, err, "pod stuck: Unschedulable: 0/3 nodes are available")
	require.Equal(t, failure.Limited, failure.KindOf(err))
	var last workers.State
	l.status(t, complete)
	require.NoError(t, l.jobs.Wait(within(t), made, func(s workers.State) { last = s }))
	require.Equal(t, 3, last.Succeeded)
}

// The pods that are ended because one failed are not the reason.
func TestWait_JobFailed_NamesTheCodeAndTheLastWords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	ended := func(code int32, words string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "tisnap", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: words},
			},
		}}}
	}
	l.pod(t, "worker-0", ended(7, "no key fits"))
	l.pod(t, "worker-1", ended(143, "it was asked to end"))
	l.deleting(t, "worker-1")
	l.status(t, failed)
	err := l.jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "PodFailurePolicy: exit code 7; worker-0: Error: container tisnap ended with code 7 no key fits")
}

func TestWait_SomeoneDeletedIt_NotFound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	require.NoError(t, l.core.Jobs("tidb").Delete(within(t), made.Name, metav1.DeleteOptions{}))
	l.make(t, spec())
	err := l.jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func TestRemove_ThisJobAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	l.pod(t, "worker-0", corev1.PodStatus{Phase: corev1.PodRunning})
	another := made
	another.UID = "another"
	require.NoError(t, l.jobs.Remove(within(t), another))
	another = made
	another.Run = "another"
	require.Equal(t, failure.Conflict, failure.KindOf(l.jobs.Remove(within(t), another)))
	another.Run = ""
	require.Equal(t, failure.Usage, failure.KindOf(l.jobs.Remove(within(t), another)))
	require.Equal(t, made.UID, string(l.job(t).UID))
	for range 2 {
		require.NoError(t, l.jobs.Remove(within(t), made))
	}
	pods, err := l.core.Pods("tidb").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Empty(t, pods.Items)
}

func TestNameOf_LongRun_IsAName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "tisnap-archive-20261127t120000-abcdef01", workers.NameOf("tisnap-archive", run))
	require.LessOrEqual(t, len(workers.NameOf("tisnap-archive", "x"+run+run+run)), workers.MaxName)
}

func TestWait_NoPodRuns_UnreadyAfterAWhile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	l.jobs.StartWithin = 50 * time.Millisecond
	err := l.jobs.Wait(within(t), made, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "0 of its pods run")
}

// Two runs may have the same label.
func TestMade_OfOneLabel_ThisRunAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	other := spec()
	other.Run, other.Name = "20261127T120000_abcdef01", "another"
	require.Equal(t, runmark.Selector(run), runmark.Selector(other.Run))
	l.make(t, other)
	all, err := l.jobs.Made(within(t), run, "tidb")
	require.NoError(t, err)
	require.Equal(t, []workers.Job{made}, all)
}
