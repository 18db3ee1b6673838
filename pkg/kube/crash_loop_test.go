package kube_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// fatal is a line of TiKV's log, with its backtrace and something that a terminal would obey.
const fatal = `[2026/11/21 10:00:01.500 +00:00] [FATAL] [lib.rs:509] ["to_commit 95 is out of range [last_index 51]` + "\x1b[2J" + `"] [backtrace="   0: tikv_util"] [thread_name=main]`

// crashing puts a TiKV pod there whose container has ended and was restarted so many times.
func (l *lab) crashing(t *testing.T, pod string, restarts int64, state map[string]any) {
	t.Helper()
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": pod, "namespace": "tidb", "labels": map[string]any{
			"app.kubernetes.io/instance": "dst", "app.kubernetes.io/component": "tikv", "app.kubernetes.io/managed-by": "tidb-operator", "app.kubernetes.io/name": "tidb-cluster",
		}},
		"status": map[string]any{"phase": "Running", "containerStatuses": []any{
			map[string]any{"name": "tikv", "restartCount": restarts, "state": state},
		}},
	}}))
}

func backOff() map[string]any {
	return map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
}

func TestCrashLoops_ReportsTheLastLogLineOfEachPod(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")})))
	l.crashing(t, "dst-tikv-0", 4, backOff())
	l.crashing(t, "dst-tikv-1", 3, backOff())
	l.crashing(t, "dst-tikv-2", 9, map[string]any{"running": map[string]any{}})
	l.crashing(t, "dst-tikv-3", 9, map[string]any{"terminated": map[string]any{"exitCode": int64(1)}})
	l.crashing(t, "dst-tikv-4", 5, backOff())
	l.server.SetPodLog("tidb", "dst-tikv-0", "[INFO] starts\n", "[INFO] x\n"+fatal+"\n[INFO] y\n")
	l.server.SetPodLog("tidb", "dst-tikv-3", "invalid configuration\n", "")

	found := must(l.client.CrashLoops(t.Context(), source("dst"), 4))
	require.Equal(t, []kube.CrashLoop{
		{Pod: "dst-tikv-0", Ordinal: 0, Restarts: 4, LastWords: `[FATAL] [lib.rs:509] ["to_commit 95 is out of range [last_index 51][2J"]`},
		{Pod: "dst-tikv-3", Ordinal: 3, Restarts: 9, LastWords: "invalid configuration"},
		{Pod: "dst-tikv-4", Ordinal: 4, Restarts: 5},
	}, found)
}

func TestCrashLoops_LongLine_IsCut(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")})))
	l.crashing(t, "dst-tikv-0", 4, backOff())
	l.server.SetPodLog("tidb", "dst-tikv-0", "", "[FATAL] "+strings.Repeat("x", 1<<20)+"\n")
	require.Less(t, len(must(l.client.CrashLoops(t.Context(), source("dst"), 4))[0].LastWords), 3000)
}

// A refusal that counts is asked again until it has stayed.
func TestCrashLoops_LogMayNotBeRead_IsAskedOnce(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	l.server.Deny("get", "pods/log")
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: source("dst")})))
	l.crashing(t, "dst-tikv-0", 4, backOff())
	l.server.SetPodLog("tidb", "dst-tikv-0", "", fatal)
	require.Equal(t, []kube.CrashLoop{{Pod: "dst-tikv-0", Restarts: 4}}, must(l.client.CrashLoops(t.Context(), source("dst"), 4)))
	require.Equal(t, 2, l.faults.Calls("kube.get.pods"), "the log of the process before, and that of this one")
}
