package kubetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A connection from or to a namespace with network policies fails, unless the network ignores them.
func TestRunProbes_ConnectionsBetweenNamespaces(t *testing.T) { //nolint:tparallel // the parts share the network
	t.Parallel()
	s := New(Config{})
	ctx, cancel := context.WithCancel(t.Context())
	var ignored atomic.Bool
	var done sync.WaitGroup
	done.Go(func() { s.RunProbes(ctx, ignored.Load) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	require.NoError(t, s.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": map[string]any{"name": "closed", "namespace": "cage"}, "spec": map[string]any{"podSelector": map[string]any{}},
	}}))
	phase := func(namespace, name string) string {
		text, _, _ := unstructured.NestedString(s.Get("pods", namespace, name).Object, "status", "phase")
		return text
	}
	start := func(namespace, name string, command ...any) {
		require.NoError(t, s.Put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": namespace},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "probe", "image": "busybox", "command": command}}},
		}}))
		require.Eventually(t, func() bool { p := phase(namespace, name); return p != "" && p != "Pending" }, 10*time.Second, time.Millisecond)
	}
	code := func(namespace, name string) int64 {
		list, _, _ := unstructured.NestedSlice(s.Get("pods", namespace, name).Object, "status", "containerStatuses")
		require.Len(t, list, 1)
		n, _, _ := unstructured.NestedInt64(list[0].(map[string]any), "state", "terminated", "exitCode")
		return n
	}
	start("cage", "listen", "nc", "-lk", "-p", "8080", "-e", "true")
	require.Equal(t, "Running", phase("cage", "listen"))
	for name, row := range map[string]struct {
		from, to string
		ignored  bool
		want     int64
	}{
		"within":       {"cage", "cage", false, 0},
		"into":         {"default", "cage", false, 1},
		"out-of":       {"cage", "default", false, 1},
		"outside":      {"default", "default", false, 0},
		"into-ignored": {"default", "cage", true, 0},
	} {
		t.Run(name, func(t *testing.T) { // one after another: they share the network
			ignored.Store(row.ignored)
			start(row.from, name, "nc", "-w", "3", addressOf+row.to, "8080")
			require.Equal(t, row.want, code(row.from, name))
		})
	}
}
