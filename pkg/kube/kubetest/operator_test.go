package kubetest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

const patience = time.Minute

type operatorLab struct {
	server  *kubetest.Server
	runtime *kubetest.IdleRuntime
	disks   *kubetest.MemoryDisks
	log     *lines
}

// lines are those of a log.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, format+"\n", args...)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newOperatorLab runs an Operator over a server without other clients.
func newOperatorLab(t *testing.T, zones ...cluster.Zone) operatorLab {
	t.Helper()
	l := operatorLab{server: kubetest.New(kubetest.Config{}), runtime: &kubetest.IdleRuntime{}, disks: &kubetest.MemoryDisks{}, log: &lines{}}
	for i, zone := range zones {
		instance := cluster.InstanceID(fmt.Sprintf("i-%d", i))
		require.NoError(t, l.server.AddNode(fmt.Sprintf("node-%d", i), instance, zone))
		l.disks.AddInstance(instance, zone)
	}
	operator := kubetest.NewOperator(l.server.Objects, l.runtime, l.disks, kubetest.OperatorConfig{
		Retry: 10 * time.Millisecond, Poll: 10 * time.Millisecond, Logf: l.log.add,
	})
	runOperator(t, operator)
	return l
}

// runOperator runs an Operator until the test ends.
func runOperator(t *testing.T, operator *kubetest.Operator) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		operator.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

func (l operatorLab) put(t *testing.T, opts kubetest.ClusterOptions) cluster.Name {
	t.Helper()
	require.NoError(t, l.server.Put(kubetest.NewTidbCluster(opts)))
	return opts.Name
}

func (l operatorLab) eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond, what)
}

func (l operatorLab) ready(name cluster.Name) bool {
	tc := l.server.Get("tidbclusters", name.Namespace, name.Name)
	list, _, _ := unstructured.NestedSlice(tc.Object, "status", "conditions")
	if len(list) == 0 {
		return false
	}
	condition, _ := list[0].(map[string]any)
	return condition["status"] == "True"
}

var name = cluster.Name{Namespace: "tidb", Name: "src"}

func TestOperator_NormalCluster_ComesUpAsRecorded(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b", "us-west-2c")
	l.put(t, kubetest.ClusterOptions{Name: name, RaftLogVolume: true})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	pd, tikv, tidb := l.runtime.Running(name)
	assert.Equal(t, []int{1, 3, 1}, []int{pd, tikv, tidb})
	assert.Len(t, l.disks.Attached(), 6)

	tc := l.server.Get("tidbclusters", "tidb", "src")
	stores, _, _ := unstructured.NestedMap(tc.Object, "status", "tikv", "stores")
	require.Len(t, stores, 3)
	for id, s := range stores {
		store, _ := s.(map[string]any)
		assert.Equal(t, id, store["id"])
		assert.Equal(t, "Up", store["state"])
		assert.Equal(t, fmt.Sprintf("%s.src-tikv-peer.tidb.svc", store["podName"]), store["ip"])
	}
	url, _, _ := unstructured.NestedString(tc.Object, "status", "pd", "members", "src-pd-0", "clientURL")
	assert.Equal(t, "http://src-pd-0.src-pd-peer.tidb.svc:2379", url)

	nodes := map[string]bool{}
	for i := range 3 {
		pod := l.server.Get("pods", "tidb", fmt.Sprintf("src-tikv-%d", i))
		node, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
		nodes[node] = true
		claim := l.server.Get("persistentvolumeclaims", "tidb", fmt.Sprintf("tikv-raft-log-src-tikv-%d", i))
		require.NotNil(t, claim)
		assert.Equal(t, pod.GetName(), claim.GetAnnotations()["tidb.pingcap.com/pod-name"])
		assert.NotEmpty(t, claim.GetLabels()["tidb.pingcap.com/store-id"])
	}
	assert.Len(t, nodes, 3, "one store a node")
	for _, p := range l.runtime.Starts() {
		require.Len(t, p.Volumes, 2)
		assert.Equal(t, cluster.RoleData, p.Volumes[0].Role)
		assert.Equal(t, cluster.RoleRaftLog, p.Volumes[1].Role)
		assert.Equal(t, "/var/lib/raft-log", p.Volumes[1].MountPath)
	}
}

func TestOperator_NothingChanges_WritesNothing(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	l.eventually(t, "still", func() bool {
		changed := l.server.Changed()
		select {
		case <-changed:
			return false
		case <-time.After(50 * time.Millisecond): // five polls
			return true
		}
	})
}

func TestOperator_RecoveryMode_StartsPDOnly(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, RecoveryMode: true})
	l.eventually(t, "pd", func() bool {
		tc := l.server.Get("tidbclusters", "tidb", "src")
		members, _, _ := unstructured.NestedMap(tc.Object, "status", "pd", "members")
		return len(members) == 1
	})
	assert.Nil(t, l.server.Get("statefulsets", "tidb", "src-tikv"))

	tc := l.server.Get("tidbclusters", "tidb", "src")
	tc.SetAnnotations(map[string]string{"tidb.pingcap.com/tikv-volumes-ready": "true"})
	require.NoError(t, l.server.Put(tc))
	l.eventually(t, "pods wait for claims", func() bool {
		for _, e := range l.server.List("events", "tidb") {
			message, _, _ := unstructured.NestedString(e.Object, "message")
			if strings.Contains(message, `persistentvolumeclaim "tikv-src-tikv-2" not found`) {
				return true
			}
		}
		return false
	})
	assert.Empty(t, l.server.List("persistentvolumeclaims", ""), "no empty volumes are made")
	assert.Empty(t, l.runtime.Starts())
}

func TestOperator_PodDeleted_IsMadeAgainOnItsVolumes(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 2})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	pod := l.server.Get("pods", "tidb", "src-tikv-1")
	first := l.runtime.Starts()
	require.NoError(t, l.server.Remove(pod))
	l.eventually(t, "started again", func() bool { return len(l.runtime.Starts()) == 3 && l.ready(name) })
	again := l.runtime.Starts()[2]
	assert.Equal(t, "src-tikv-1", again.Pod)
	for _, p := range first {
		if p.Pod == again.Pod {
			assert.Equal(t, p.Volumes, again.Volumes)
		}
	}
	assert.NotEqual(t, pod.GetUID(), l.server.Get("pods", "tidb", "src-tikv-1").GetUID())
}

func TestOperator_ClusterDeleted_StopsAllAndKeepsVolumes(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 2})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "src")))
	l.eventually(t, "stopped", func() bool {
		pd, tikv, tidb := l.runtime.Running(name)
		return pd+tikv+tidb == 0 && len(l.disks.Attached()) == 0
	})
	assert.Empty(t, l.server.List("pods", ""))
	assert.Empty(t, l.server.List("statefulsets", ""))
	assert.Len(t, l.server.List("persistentvolumeclaims", ""), 2)
	assert.Len(t, l.server.List("persistentvolumes", ""), 2)

	// A new cluster of the name starts on the claims that stayed: the trap that a restore has to see.
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 2})
	l.eventually(t, "ready again", func() bool { return l.ready(name) })
	assert.Len(t, l.server.List("persistentvolumes", ""), 2)
}

func TestOperator_Replicas_AreFollowed(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	for _, want := range []int{3, 2} {
		tc := l.server.Get("tidbclusters", "tidb", "src")
		require.NoError(t, unstructured.SetNestedField(tc.Object, int64(want), "spec", "tikv", "replicas"))
		require.NoError(t, l.server.Put(tc))
		l.eventually(t, "scaled", func() bool {
			_, tikv, _ := l.runtime.Running(name)
			return tikv == want && len(l.disks.Attached()) == want
		})
	}
	assert.Len(t, l.server.List("persistentvolumeclaims", ""), 3, "claims stay after scaling in")
}

func TestOperator_VolumeOfAZoneWithoutNode_LeavesPodUnscheduled(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "src")))
	l.eventually(t, "stopped", func() bool { return len(l.disks.Attached()) == 0 })
	pv := l.server.List("persistentvolumes", "")[0]
	require.NoError(t, unstructured.SetNestedSlice(pv.Object, []any{map[string]any{"matchExpressions": []any{
		map[string]any{"key": "topology.kubernetes.io/zone", "operator": "In", "values": []any{"us-west-2c"}},
	}}}, "spec", "nodeAffinity", "required", "nodeSelectorTerms"))
	require.NoError(t, l.server.Put(pv))
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "event", func() bool {
		for _, e := range l.server.List("events", "tidb") {
			message, _, _ := unstructured.NestedString(e.Object, "message")
			if strings.Contains(message, "had volume node affinity conflict") {
				return true
			}
		}
		return false
	})
}
