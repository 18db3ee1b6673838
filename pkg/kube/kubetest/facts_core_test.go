package kubetest_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// What TiDB Operator 2.x does.

// make puts what a user writes for a cluster.
func (l operatorLab) make(t *testing.T, opts kubetest.ClusterOptions) {
	t.Helper()
	opts.Name = name
	for _, o := range kubetest.NewCoreCluster(opts) {
		require.NoError(t, l.server.Put(o))
	}
	l.eventually(t, "available", func() bool { return l.is("clusters", "src", "Available") && l.is("clusters", "src", "Ready") })
}

// is reports whether a condition of an object is true.
func (l operatorLab) is(resource, of, condition string) bool {
	o := l.server.Get(resource, "tidb", of)
	if o == nil {
		return false
	}
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(list, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == condition && m["status"] == "True"
	})
}

// set changes an object, retrying on conflicts.
func (l operatorLab) set(t *testing.T, resource, of string, change func(*unstructured.Unstructured)) {
	t.Helper()
	o := l.server.Get(resource, "tidb", of)
	require.NotNil(t, o)
	change(o)
	require.NoError(t, l.server.Put(o))
}

func field(t *testing.T, value any, path ...string) func(*unstructured.Unstructured) {
	t.Helper()
	return func(o *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(o.Object, value, path...))
	}
}

func text(o *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, path...)
	return s
}

// remains has the Operator take several more steps, and then requires that something is still so.
func (l operatorLab) remains(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for range 3 {
		require.NoError(t, l.server.Put(configMapOf(t, l)))
		l.eventually(t, "a step of the Operator", func() bool { return l.server.Get("configmaps", "tidb", "step") == nil })
	}
	require.True(t, condition(), what)
}

// configMapOf is an object that the garbage collector takes away in the Operator's next step.
func configMapOf(t *testing.T, l operatorLab) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	o.SetNamespace("tidb")
	o.SetName("step")
	gone := byKind(coreObjects(), "TiKVGroup")
	gone.SetUID("unknown")
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(gone, gone.GroupVersionKind())})
	return o
}

func TestFacts_ClusterOfOperator2_NamesAndLabels(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.make(t, kubetest.ClusterOptions{TiKV: 3, TiKVGroups: 2, RaftLogVolume: true})
	stores := l.server.List("tikvs", "tidb")
	require.Len(t, stores, 3)
	cl := l.server.Get("clusters", "tidb", "src")
	require.NotEmpty(t, text(cl, "status", "pd"))
	require.NotEmpty(t, text(cl, "status", "id"))
	for _, o := range stores {
		group := o.GetLabels()["pingcap.com/group"]
		require.Regexp(t, "^"+group+"-[a-z0-9]{6}$", o.GetName())
		suffix := o.GetName()[len(group)+1:]
		pod := l.server.Get("pods", "tidb", group+"-tikv-"+suffix)
		require.NotNil(t, pod)
		require.Equal(t, group+"-tikv-peer", text(pod, "spec", "subdomain"))
		grace, _, _ := unstructured.NestedInt64(pod.Object, "spec", "terminationGracePeriodSeconds")
		require.EqualValues(t, 65535, grace)
		require.NotNil(t, l.server.Get("services", "tidb", group+"-tikv-peer"))
		l.eventually(t, "labelled", func() bool {
			return l.server.Get("persistentvolumeclaims", "tidb", "data-"+pod.GetName()).GetLabels()["tidb.pingcap.com/store-id"] == text(o, "status", "id")
		})
		claim := l.server.Get("persistentvolumeclaims", "tidb", "raft-log-"+pod.GetName())
		require.Subset(t, claim.GetLabels(), map[string]string{
			"pingcap.com/managed-by": "tidb-operator", "pingcap.com/component": "tikv", "pingcap.com/cluster": "src",
			"pingcap.com/group": group, "pingcap.com/instance": o.GetName(), "pingcap.com/volume-name": "raft-log",
			"tidb.pingcap.com/cluster-id": text(cl, "status", "id"), "app.kubernetes.io/instance": "src",
		})
		require.Equal(t, o.GetUID(), claim.GetOwnerReferences()[0].UID)
		require.Empty(t, l.server.Get("persistentvolumes", "", text(claim, "spec", "volumeName")).GetLabels())
		require.NotContains(t, o.GetLabels(), "pingcap.com/instance")
		require.Equal(t, group, o.GetOwnerReferences()[0].Name)
	}
	start := l.runtime.Starts()[0]
	require.Contains(t, start.Host, start.Pod+".src-kv")
	require.Regexp(t, `-tikv-peer\.tidb$`, start.Host)
	require.NotNil(t, l.server.Get("services", "tidb", "src-pd-pd"))
}

func TestFacts_StatusOfOperator2_HasWhatItsDefinitionsDemand(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.make(t, kubetest.ClusterOptions{PD: 3, TiKV: 2})
	group := l.server.Get("tikvgroups", "tidb", "src-kv0")
	status, _, _ := unstructured.NestedMap(group.Object, "status")
	revision := l.server.List("tikvs", "tidb")[0].GetLabels()["pingcap.com/instance-revision-hash"]
	require.Subset(t, status, map[string]any{
		"replicas": int64(2), "currentReplicas": int64(2), "updatedReplicas": int64(2), "readyReplicas": int64(2), "version": "v7.5.1",
		"currentRevision": revision, "updateRevision": revision, "observedClusterGeneration": int64(1),
		"selector": "pingcap.com/cluster=src,pingcap.com/component=tikv,pingcap.com/group=src-kv0",
	})
	leaders := 0
	for _, pd := range l.server.List("pds", "tidb") {
		require.NotEmpty(t, text(pd, "status", "id"))
		if leads, _, _ := unstructured.NestedBool(pd.Object, "status", "isLeader"); leads {
			leaders++
		}
	}
	require.Equal(t, 1, leaders)
}

func TestFacts_FoundersOfPD_AreSoUntilTheyAreReady(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	const founder = "pd.core.pingcap.com/initial-cluster-num"
	seen := make(chan string, 100)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			next := l.server.Changed()
			for _, pd := range l.server.List("pds", "tidb") {
				select {
				case seen <- pd.GetAnnotations()[founder]:
				default:
				}
			}
			select {
			case <-next:
			case <-stop:
				return
			}
		}
	}()
	l.make(t, kubetest.ClusterOptions{PD: 1, TiKV: 1})
	close(stop)
	<-done
	require.Equal(t, "1", <-seen)
	founded, _, _ := unstructured.NestedBool(l.server.Get("pdgroups", "tidb", "src-pd").Object, "spec", "bootstrapped")
	require.True(t, founded)
	l.eventually(t, "a founder no more", func() bool { return l.server.List("pds", "tidb")[0].GetAnnotations()[founder] == "" })
}

func TestFacts_ClusterPausedFromTheStart_DoesNotChange(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	for _, o := range coreObjects() {
		if o.GetKind() == "Cluster" {
			field(t, true, "spec", "paused")(o)
		}
		require.NoError(t, l.server.Put(o))
	}
	l.remains(t, "nothing is made", func() bool {
		return len(l.server.List("pds", "tidb"))+len(l.server.List("tikvs", "tidb"))+len(l.server.List("pods", "tidb")) == 0 &&
			len(l.server.Get("clusters", "tidb", "src").GetFinalizers()) == 0
	})
	l.set(t, "clusters", "src", field(t, false, "spec", "paused"))
	l.eventually(t, "it resumes", func() bool { return l.is("clusters", "src", "Available") })
}

// A paused Cluster is deleted like any other object: at once if it was never seen unpaused, and what names it stays for ever.
func TestFacts_PausedClusterDeleted_LeavesItsInstances(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	group := byKind(coreObjects(), "TiKVGroup")
	cl := byKind(coreObjects(), "Cluster")
	field(t, true, "spec", "paused")(cl)
	require.NoError(t, l.server.Put(cl))
	require.NoError(t, l.server.Put(group))
	require.NoError(t, l.server.Put(storeOf(l.server.Get("tikvgroups", "tidb", group.GetName()), "aaaaaa")))
	require.NoError(t, l.server.Remove(cl))
	require.Nil(t, l.server.Get("clusters", "tidb", "src"))
	require.NoError(t, l.server.Remove(group))
	l.remains(t, "the store stays", func() bool { return len(l.server.List("tikvs", "tidb")) == 1 })
}

func TestFacts_PausedClusterWithAFinalizer_IsDeletedOnceItResumes(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	l.set(t, "clusters", "src", field(t, true, "spec", "paused"))
	require.NoError(t, l.server.Remove(l.server.Get("clusters", "tidb", "src")))
	l.remains(t, "all is there", func() bool {
		return len(l.server.List("tikvs", "tidb")) == 1 && l.server.Get("clusters", "tidb", "src") != nil
	})
	l.set(t, "clusters", "src", field(t, false, "spec", "paused"))
	l.eventually(t, "gone", func() bool { return l.server.Get("clusters", "tidb", "src") == nil })
}

func TestFacts_ClusterDeletedFirst_TakesAllButRetainedVolumes(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.make(t, kubetest.ClusterOptions{TiKV: 2, RaftLogVolume: true})
	require.NoError(t, l.server.Remove(l.server.Get("clusters", "tidb", "src")))
	l.eventually(t, "gone", func() bool { return l.server.Get("clusters", "tidb", "src") == nil })
	for _, resource := range []string{"pdgroups", "pds", "tikvgroups", "tikvs", "tidbgroups", "tidbs", "pods", "configmaps", "services", "persistentvolumeclaims"} {
		require.Empty(t, l.server.List(resource, "tidb"), resource)
	}
	require.Empty(t, l.disks.Attached())
	l.eventually(t, "released", func() bool {
		return !slices.ContainsFunc(l.server.List("persistentvolumes", ""), func(pv *unstructured.Unstructured) bool {
			return text(pv, "status", "phase") != "Released"
		})
	})
	require.Len(t, l.server.List("persistentvolumes", ""), 4)
	l.eventually(t, "stopped", func() bool {
		pd, tikv, tidb := l.runtime.Running(name)
		return pd+tikv+tidb == 0
	})
}

func TestFacts_StoreDeleted_IsOfflineForEver(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	store := l.server.List("tikvs", "tidb")[0]
	require.NoError(t, l.server.Remove(store))
	offline := func() bool {
		o := l.server.Get("tikvs", "tidb", store.GetName())
		is, _, _ := unstructured.NestedBool(o.Object, "spec", "offline")
		return is && text(o, "status", "state") == "Removing"
	}
	l.eventually(t, "offline", offline)
	l.remains(t, "it is there, and another one for it", func() bool { return offline() && len(l.server.List("persistentvolumeclaims", "tidb")) == 2 })
}

func TestFacts_StoreThatPDNeverKnew_IsDeletedAtOnce(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t)
	for _, o := range coreObjects() {
		require.NoError(t, l.server.Put(o))
	}
	l.eventually(t, "a store without a node", func() bool { return len(l.server.List("persistentvolumeclaims", "tidb")) == 1 })
	store := l.server.List("tikvs", "tidb")[0]
	require.NoError(t, l.server.Remove(store))
	l.eventually(t, "gone", func() bool { return l.server.Get("tikvs", "tidb", store.GetName()) == nil })
}

func TestFacts_BothOperators_RunSideBySide(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	other := name
	other.Name = "old"
	l.put(t, kubetest.ClusterOptions{Name: other, TiKV: 1})
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(other) })
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "old")))
	l.remains(t, "the newer one's stays", func() bool {
		_, tikv, _ := l.runtime.Running(name)
		return tikv == 1
	})
}
