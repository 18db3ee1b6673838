package workers_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

func done(context.Context, *corev1.Pod, int, int) int32 { return 0 }

func TestWait_PodsAreRefused_UnreadyWithWhatHelps(t *testing.T) {
	t.Parallel()
	for why, hint := range map[string]string{
		`violates PodSecurity "restricted:latest": runAsNonRoot != true`:                      "--namespace",
		`error looking up service account tidb/stranger: serviceaccount "stranger" not found`: "--worker-service-account",
		`exceeded quota: few, requested: pods=1, used: pods=0, limited: pods=0`:               "describe resourcequota",
		`admission webhook "guard" denied the request`:                                        "describe job",
	} {
		t.Run(hint, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.server.Refuse(kubetest.Refusal{Verb: "create", Resource: "pods", Status: http.StatusForbidden, Message: why})
			l.controlled(t, done)
			l.jobs.StartWithin, l.jobs.RefusedWithin = 20*time.Second, 100*time.Millisecond
			err := l.jobs.Wait(within(t), l.make(t, spec()), nil)
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "no pod of it can be made: FailedCreate: Error creating: ")
			require.ErrorContains(t, err, why)
			require.Contains(t, failure.HintOf(err), hint)
		})
	}
}

// What was refused before the wait, as an earlier command saw it, ends it only if it is refused again.
func TestWait_RefusedEarlier_IsTriedAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "earlier", Namespace: "tidb"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: "tidb", Name: made.Name, UID: l.job(t).UID},
		Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: no", LastTimestamp: metav1.Now(),
	}
	_, err := l.core.Events("tidb").Create(within(t), event, metav1.CreateOptions{})
	require.NoError(t, err)
	l.jobs.RefusedWithin = time.Millisecond
	err = l.jobs.Wait(soon(t), made, nil)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no pod has been made: FailedCreate: Error creating: no")

	event, err = l.core.Events("tidb").Get(within(t), "earlier", metav1.GetOptions{})
	require.NoError(t, err)
	again := false
	err = l.jobs.Wait(within(t), made, func(workers.State) {
		if !again {
			again = true
			event.Count++
			_, err := l.core.Events("tidb").Update(within(t), event, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	})
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
}

// A Job of the same name had no pod: that is nothing about this one.
func TestWait_RefusedPodsOfAnotherJob_AreNotOfThisOne(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t, spec())
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "other", Namespace: "tidb"},
		InvolvedObject: corev1.ObjectReference{Kind: "Job", Namespace: "tidb", Name: made.Name, UID: "another"},
		Type:           corev1.EventTypeWarning, Reason: "FailedCreate", Message: "Error creating: no", LastTimestamp: metav1.Now(),
	}
	_, err := l.core.Events("tidb").Create(within(t), event, metav1.CreateOptions{})
	require.NoError(t, err)
	s, err := l.jobs.State(within(t), made)
	require.NoError(t, err)
	require.Empty(t, s.Waiting)
}

// A Job that ended is deleted after Keep, with its pods, and no earlier.
func TestRunJobs_KeepsWhatEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlled(t, done)
	short, long := spec(), spec()
	short.Keep, long.Name = time.Second, "kept"
	kept := l.make(t, long)
	require.NoError(t, l.jobs.Wait(within(t), kept, nil))
	made := l.make(t, short)
	require.Eventually(t, func() bool {
		found, err := l.jobs.Find(within(t), run, "tidb", made.Name)
		require.NoError(t, err)
		return found == nil
	}, time.Minute, 10*time.Millisecond)
	s, err := l.jobs.State(within(t), kept)
	require.NoError(t, err)
	require.True(t, s.Done)
	pods, err := l.core.Pods("tidb").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, pods.Items, long.Pods)
}
