package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// eventuallyWaits asks until the reasons contain the text.
func (l *lab) eventuallyWaits(t *testing.T, name cluster.Name, text string) {
	t.Helper()
	var last []string
	require.Eventually(t, func() bool {
		last = must(l.client.Waiting(t.Context(), name))
		return strings.Contains(strings.Join(last, "\n"), text)
	}, patience, 5*time.Millisecond, "%s, not %v", text, &last)
}

func TestWaiting_OperatorAbsent_IsReported(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("dst"), Run: run}))
	l.eventuallyWaits(t, source("dst"), "check that TiDB Operator runs")
}

func TestWaiting_ClusterDeleted_IsNotFound(t *testing.T) {
	t.Parallel()
	_, err := newServer(t).client.Waiting(t.Context(), source("dst"))
	require.Equal(t, failure.NotFound, failure.KindOf(err))
}

func TestWaiting_NoPodMade_ReportsTheEventOfItsStatefulSet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := source(strings.Repeat("x", 50)) // made by hand: a restore refuses it
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: name})))
	l.eventuallyWaits(t, name, "no pd pod has been created: FailedCreate: create Pod")
}

func TestWaiting_SecretMissing_ReportsFailedMount(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	o := withField(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")}), true, "spec", "tlsCluster", "enabled")
	require.NoError(t, l.server.Put(o))
	l.eventuallyWaits(t, source("dst"), `pod dst-pd-0: FailedMount: MountVolume.SetUp failed for volume "pd-tls" : secret "dst-pd-cluster-secret" not found`)
}

func TestWaiting_VolumeOfAZoneWithoutNode_ReportsWhyItIsPending(t *testing.T) {
	t.Parallel()
	l := newLab(t, "us-west-2a")
	require.NoError(t, l.client.CreateCluster(t.Context(), oneStore(t), kube.Target{Name: source("dst"), Run: run}))
	require.NoError(t, l.client.BindVolume(t.Context(), recordedVolume(t, source("dst")))) // in us-west-2b
	require.NoError(t, l.client.StartTiKV(t.Context(), source("dst")))
	l.eventuallyWaits(t, source("dst"), "pod dst-tikv-0: Unschedulable: 0/1 nodes are available: 1 node(s) had volume node affinity conflict")
}

func TestWaiting_NodePortTaken_ReportsWhyThereIsNoTiDB(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, name := range []string{"src", "dst"} {
		o := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source(name), TiKV: 1})
		require.NoError(t, l.server.Put(withField(o, int64(30400), "spec", "tidb", "service", "mysqlNodePort")))
		if name == "src" {
			l.awaitUp(t, source(name), 1)
		}
	}
	l.eventuallyWaits(t, source("dst"), "no tidb pod has been created: FailedSync")
	l.eventuallyWaits(t, source("dst"), "30400: provided port is already allocated")
}

func TestWaiting_ContainerDoesNotRun_ReportsItsState(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]map[string]any{
		"ImagePullBackOff: Back-off pulling image": {"waiting": map[string]any{"reason": "ImagePullBackOff", "message": "Back-off pulling image"}},
		"CrashLoopBackOff: back-off 5m0s":          {"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
		"Error: container pd ended with code 1 no": {"terminated": map[string]any{"reason": "Error", "exitCode": int64(1), "message": "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")})))
			for i := range 12 {
				require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Pod",
					"metadata": map[string]any{"name": fmt.Sprintf("dst-pd-%02d", i), "namespace": "tidb", "labels": map[string]any{
						"app.kubernetes.io/instance": "dst", "app.kubernetes.io/component": "pd",
					}},
					"status": map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"name": "pd", "state": state}}},
				}}))
			}
			reasons := must(l.client.Waiting(t.Context(), source("dst")))
			require.Len(t, reasons, 11)
			require.Equal(t, "pod dst-pd-00: "+name, reasons[0])
			require.Equal(t, "and 2 more pods", reasons[10])
		})
	}
}

func TestWaiting_ClusterIsUp_IsEmpty(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	name := l.start(t, kubetest.ClusterOptions{Name: source("src")})
	require.Eventually(t, func() bool { return len(must(l.client.Waiting(t.Context(), name))) == 0 }, patience, 5*time.Millisecond)
}

// A refusal that counts is asked again until it has stayed.
func TestWaiting_EventsMayNotBeListed_IsAskedOnce(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	l.server.Deny("list", "events")
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")})))
	require.Len(t, must(l.client.Waiting(t.Context(), source("dst"))), 1)
	require.Equal(t, 1, l.faults.Calls("kube.list.events"))
}
