package cage_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMake_ClosesTheNamespace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	require.NotEmpty(t, made.UID)
	found, err := l.cages.List(within(t))
	require.NoError(t, err)
	require.Equal(t, []cage.Cage{made}, found)
	require.Equal(t, spec().Expires, made.Expires)
	require.Equal(t, "storage-1", made.Storage)

	quotas, err := l.core.ResourceQuotas(made.Namespace).List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	hard := quotas.Items[0].Spec.Hard
	for name, want := range map[corev1.ResourceName]string{
		"pods": "20", "persistentvolumeclaims": "12", "requests.storage": "700Gi", "services.loadbalancers": "0",
		"services.nodeports": "0",
	} {
		q, limited := hard[name]
		require.True(t, limited, name)
		require.Equal(t, want, q.String(), name)
	}

	list, err := l.core.NetworkPolicies(made.Namespace).List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	closed, discovery := list.Items[0].Spec, list.Items[1].Spec
	require.Empty(t, closed.PodSelector.MatchLabels, "it is about all pods")
	require.Len(t, closed.PolicyTypes, 2, "both directions are closed")
	require.Len(t, closed.Ingress[0].From, 2)
	require.Equal(t, "tidb-admin", closed.Ingress[0].From[1].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
	for _, e := range closed.Egress {
		for _, to := range e.To {
			require.Nil(t, to.IPBlock, "no address is allowed")
			require.True(t, to.NamespaceSelector == nil || len(e.Ports) == 2, "of other namespaces, DNS alone")
		}
	}
	require.Equal(t, "discovery", discovery.PodSelector.MatchLabels["app.kubernetes.io/component"])
	require.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, discovery.PolicyTypes)
	require.Equal(t, "10.0.9.9/32", discovery.Egress[0].To[0].IPBlock.CIDR)

	// The policies come before the quota, so that no pod comes before them.
	calls := strings.Join(l.server.MutatingCalls(), "\n")
	require.Less(t, strings.Index(calls, "networkpolicies"), strings.Index(calls, "resourcequotas"))
}

// What would lead into the cage from outside is refused by the API server, whoever asks for it.
func TestMake_ServicesOfOutside_AreRefused(t *testing.T) { //nolint:tparallel // the parts share a cage
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	for kind, refused := range map[string]bool{"ClusterIP": false, "NodePort": true, "LoadBalancer": true} {
		t.Run(kind, func(t *testing.T) {
			err := l.core.CoreREST().Post().Namespace(made.Namespace).Resource("services").Body(&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind)},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceType(kind), Ports: []corev1.ServicePort{{Port: 4000}}},
			}).Do(within(t)).Error()
			if !refused {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, "exceeded quota: tisnap-drill")
		})
	}
}

// A process that died in the middle is followed by one that completes the cage.
func TestMake_Died_IsCompleted(t *testing.T) {
	t.Parallel()
	for _, point := range []string{
		"kube.create.namespaces", "kube.create.networkpolicies", "kube.create.resourcequotas",
	} {
		for _, at := range []fault.Position{fault.Before, fault.After} {
			t.Run(point+" "+at.String(), func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				require.NoError(t, l.faults.Add(fault.Rule{Point: point, Position: at}))
				_, err := l.cages.Make(within(t), spec())
				require.Error(t, err)
				made := l.make(t)
				list, err := l.core.NetworkPolicies(made.Namespace).List(within(t), metav1.ListOptions{})
				require.NoError(t, err)
				require.Len(t, list.Items, 2)
				quotas, err := l.core.ResourceQuotas(made.Namespace).List(within(t), metav1.ListOptions{})
				require.NoError(t, err)
				require.Len(t, quotas.Items, 1)
			})
		}
	}
}

// A namespace of that name is not closed, and not used, if the run did not make it.
func TestMake_NamespaceIsAnothers_Conflict(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.Namespace){
		"a person's":          func(ns *corev1.Namespace) { ns.Annotations = nil },
		"another run's":       func(ns *corev1.Namespace) { ns.Annotations["tisnap.io/run"] = "other" },
		"of another storage":  func(ns *corev1.Namespace) { ns.Annotations["tisnap.io/storage"] = "storage-2" },
		"of the run, no cage": func(ns *corev1.Namespace) { delete(ns.Labels, cage.Label) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.change(t, l.make(t), change)
			before := l.server.MutatingCalls()
			_, err := l.cages.Make(within(t), spec())
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			for _, call := range l.server.MutatingCalls()[len(before):] {
				require.Equal(t, "create namespaces "+cage.Name(run), call, "nothing is made in it")
			}
		})
	}
}

// change changes the namespace of a cage.
func (l *lab) change(t *testing.T, of cage.Cage, change func(*corev1.Namespace)) {
	t.Helper()
	ns, err := l.core.Namespaces().Get(within(t), of.Namespace, metav1.GetOptions{})
	require.NoError(t, err)
	change(ns)
	_, err = l.core.Namespaces().Update(within(t), ns, metav1.UpdateOptions{})
	require.NoError(t, err)
}

func TestMake_WithoutWhatItNeeds_Refused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*cage.Spec){
		"run":     func(s *cage.Spec) { s.Run = "" },
		"storage": func(s *cage.Spec) { s.Storage = "" },
		"expiry":  func(s *cage.Spec) { s.Expires = time.Time{} },
		"limits":  func(s *cage.Spec) { s.Claims = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := spec()
			change(&s)
			_, err := l.cages.Make(within(t), s)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.Empty(t, l.server.MutatingCalls())
		})
	}
}

func TestRemove_ThisCageAlone(t *testing.T) { //nolint:tparallel // the parts share a cage
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	for name, other := range map[string]func(*cage.Cage){
		"another run's":      func(c *cage.Cage) { c.Run = "other" },
		"of another storage": func(c *cage.Cage) { c.Storage = "storage-2" },
	} {
		t.Run(name, func(t *testing.T) {
			c := made
			other(&c)
			err := l.cages.Remove(within(t), c)
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.Equal(t, 0, l.deletes())
		})
	}
	another := made
	another.UID = "another"
	require.NoError(t, l.cages.Remove(within(t), another), "it is gone: the one that is there is another")
	require.Equal(t, 0, l.deletes())
	require.Equal(t, failure.Usage, failure.KindOf(l.cages.Remove(within(t), cage.Cage{Namespace: made.Namespace})))
	require.NoError(t, l.cages.Remove(within(t), made))
	found, err := l.cages.List(within(t))
	require.NoError(t, err)
	require.Empty(t, found)
	require.NoError(t, l.cages.Remove(within(t), made), "it is gone")
}

// A namespace that someone replaced between the question and the call stays: its UID is in the call.
func TestRemove_ReplacedMeanwhile_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	made := l.make(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.namespaces", Position: fault.Slow, Do: func() {
		ns := l.server.Get("namespaces", "", made.Namespace)
		assert.NoError(t, l.server.Remove(ns))
		ns.SetUID("")
		assert.NoError(t, l.server.Put(ns))
	}}))
	require.NoError(t, l.cages.Remove(within(t), made))
	found, err := l.cages.List(within(t))
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NotEqual(t, made.UID, found[0].UID)
}

func (l *lab) deletes() int {
	n := 0
	for _, call := range l.server.MutatingCalls() {
		if strings.HasPrefix(call, "delete ") {
			n++
		}
	}
	return n
}

func TestProve_NetworkKeepsToThePolicies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.kubelet(t, l.enforced, same)
	require.NoError(t, l.prove(t, l.make(t)))
	require.Equal(t, 0, l.pods(t), "no probe is left")
}

func (l *lab) prove(t *testing.T, c cage.Cage) error {
	t.Helper()
	return cage.Prove(within(t), l.probes(), c, "default")
}

// A network that is not as it has to be is refused, in each direction, and one that lets nothing through proves nothing.
func TestProve_NetworkDoesNot_Refused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		can func(l *lab, inside string) network
		why string
	}{
		"policies are ignored": {func(*lab, string) network { return ignored }, "a pod in default reaches one in it"},
		"those of egress are": {func(l *lab, inside string) network {
			return func(from, to string) bool { return from == inside || l.enforced(from, to) }
		}, "a pod in it reaches one in default"},
		"nothing connects": {func(*lab, string) network { return broken }, "pods in it do not reach each other"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			made := l.make(t)
			l.kubelet(t, row.can(l, made.Namespace), same)
			ctx, cancel := context.WithTimeout(within(t), 4*time.Second)
			defer cancel()
			err := cage.Prove(ctx, l.probes(), made, "default")
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.why)
			require.NotEmpty(t, failure.HintOf(err))
			require.Equal(t, 0, l.pods(t), "no probe is left")
		})
	}
}

// A plugin that applies a policy only after a while to a new pod is one that enforces it.
func TestProve_PolicyComesLate_IsWaitedFor(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tries := map[string]int{}
	l.kubelet(t, func(from, to string) bool {
		tries[from+to]++
		return tries[from+to] == 1 || l.enforced(from, to)
	}, same)
	require.NoError(t, l.prove(t, l.make(t)))
}

// That a probe could not be made is not that a connection failed.
func TestProve_ProbeFails_ProvesNothing(t *testing.T) {
	t.Parallel()
	t.Run("its image has no nc", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.kubelet(t, l.enforced, func(code int32) int32 { return 127 * code })
		err := l.prove(t, l.make(t))
		require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
		require.ErrorContains(t, err, "without an answer of nc")
	})
	t.Run("its pods are refused", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		l.server.Deny("create", "pods")
		err := l.prove(t, l.make(t))
		require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	})
}

// A drill that was killed leaves its probes: they end by themselves, are no other drill's, and go by the mark of their run.
func TestProve_AnotherRunWasKilled_ItsProbesAreLeftAndRemovable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.kubelet(t, l.enforced, same)
	const dead = "20261127t110000-abcdef01"
	killed := l.probes()
	killed.Run = dead
	_, err := killed.Listen(within(t), "default", "listen")
	require.NoError(t, err)
	require.NoError(t, l.prove(t, l.make(t)))

	list, err := l.core.Pods("default").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	pod := list.Items[0]
	require.True(t, strings.HasPrefix(pod.Name, "tisnap-probe-"+dead+"-listen-"), pod.Name)
	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	require.NotNil(t, pod.Spec.ActiveDeadlineSeconds)
	require.LessOrEqual(t, *pod.Spec.ActiveDeadlineSeconds, int64(3600))
	require.GreaterOrEqual(t, *pod.Spec.ActiveDeadlineSeconds, int64(600), "a proof must not lose it")
	require.NoError(t, l.cages.RemoveProbes(within(t), run, "default"))
	require.Equal(t, 1, l.pods(t), "it is another run's")
	require.NoError(t, l.cages.RemoveProbes(within(t), dead, "default"))
	require.Equal(t, 0, l.pods(t))
}

// Of the pods in a namespace that is not the cage, those of the run are removed alone.
func TestPods_Remove_ThoseOfTheRunAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, annotations := range []map[string]string{{"tisnap.io/run": string(run)}, {"tisnap.io/run": "other"}, nil} {
		_, err := l.core.Pods("default").Create(within(t), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName: "p-", Annotations: annotations, Labels: map[string]string{"tisnap.io/run": string(run)},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, (&cage.Pods{Core: l.core, Run: run}).Remove(within(t), "default"))
	list, err := l.core.Pods("default").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	require.False(t, slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.Annotations["tisnap.io/run"] == string(run) }))
}

// A pod that was replaced between the question and the call stays: its UID is in the call.
func TestPods_RemoveReplacedMeanwhile_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.kubelet(t, l.enforced, same)
	_, err := l.probes().Listen(within(t), "default", "listen")
	require.NoError(t, err)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.pods", Position: fault.Slow, Do: func() {
		pod := l.server.List("pods", "default")[0]
		assert.NoError(t, l.server.Remove(pod))
		pod.SetUID("")
		assert.NoError(t, l.server.Put(pod))
	}}))
	require.Error(t, l.cages.RemoveProbes(within(t), run, "default"), "the next call looks again")
	require.Equal(t, 1, l.pods(t))
}
