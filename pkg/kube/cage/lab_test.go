package cage_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const run = cluster.RunID("20261127t120000-abcdef01")

// lab is an API server, and a kubelet that runs the pods of probes.
type lab struct {
	server *kubetest.Server
	faults *fault.Plan
	core   *typed.Client
	cages  *cage.Cages
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{faults: &fault.Plan{}}
	l.server = kubetest.New(kubetest.Config{Faults: l.faults, Namespace: "tidb"})
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	var err error
	l.core, err = l.server.Client(&http.Transport{})
	require.NoError(t, err)
	l.cages = cage.New(l.core)
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": map[string]any{
			"name": "kubernetes", "namespace": "default", "labels": map[string]any{"kubernetes.io/service-name": "kubernetes"},
		},
		"endpoints": []any{map[string]any{"addresses": []any{"10.0.9.9"}}},
		"ports":     []any{map[string]any{"name": "https", "port": int64(443), "protocol": "TCP"}},
	}}))
	return l
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func spec() cage.Spec {
	return cage.Spec{
		Run: run, Storage: "storage-1", Expires: time.Date(2026, 11, 27, 18, 0, 0, 0, time.UTC), From: []string{"tidb-admin"},
		Pods: 20, Claims: 12, StorageGiB: 700,
	}
}

func (l *lab) make(t *testing.T) cage.Cage {
	t.Helper()
	made, err := l.cages.Make(within(t), spec())
	require.NoError(t, err)
	return made
}

// network is what connections the kubelet's pods can make.
type network func(from, to string) bool

// enforced keeps to policies: a namespace that has any is closed to others.
func (l *lab) enforced(from, to string) bool {
	return from == to || len(l.server.List("networkpolicies", from))+len(l.server.List("networkpolicies", to)) == 0
}

func ignored(string, string) bool { return true }
func broken(string, string) bool  { return false }

// kubelet runs the pods of probes until the test ends: those that listen are ready, the others end with nc's exit code.
func (l *lab) kubelet(t *testing.T, can network, exit func(int32) int32) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	done.Go(func() {
		for wait.For(ctx, 2*time.Millisecond) == nil {
			for _, o := range l.server.List("pods", "") {
				l.advance(t, o, can, exit)
			}
		}
	})
}

func (l *lab) advance(t *testing.T, o *unstructured.Unstructured, can network, exit func(int32) int32) {
	t.Helper()
	var pod corev1.Pod
	if !assert.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod)) || pod.Status.Phase != corev1.PodPending {
		return
	}
	command := pod.Spec.Containers[0].Command
	if command[1] == "-lk" {
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "ip-of-" + pod.Namespace,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
	} else {
		code := int32(1)
		if can(pod.Namespace, strings.TrimPrefix(command[3], "ip-of-")) {
			code = 0
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: exit(code)}}},
		}}
	}
	next, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if assert.NoError(t, err) {
		u := &unstructured.Unstructured{Object: next}
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		if l.server.Get("pods", pod.Namespace, pod.Name) != nil {
			assert.NoError(t, l.server.Put(u))
		}
	}
}

func (l *lab) probes() *cage.Pods {
	return &cage.Pods{Core: l.core, Run: run, Image: "busybox", Interval: 5 * time.Millisecond}
}

func same(code int32) int32 { return code }

func (l *lab) pods(t *testing.T) int {
	t.Helper()
	list, err := l.core.Pods("").List(within(t), metav1.ListOptions{})
	require.NoError(t, err)
	return len(list.Items)
}
