package kubetest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// What TiDB Operator 2.x does with stores that someone else made for it, as a restore does.

const zone = "topology.kubernetes.io/zone"

// claimOf names the data volume of a store before there is one.
func claimOf(store *unstructured.Unstructured, pod string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim",
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "ebs-sc", "volumeName": "pv-" + pod, "volumeMode": "Filesystem",
			"resources": map[string]any{"requests": map[string]any{"storage": "10Gi"}},
		},
		"status": map[string]any{"phase": "Pending"},
	}}
	o.SetNamespace("tidb")
	o.SetName("data-" + pod)
	o.SetLabels(map[string]string{"pingcap.com/instance": store.GetName()})
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(store, store.GroupVersionKind())})
	return o
}

// volumeOf is the volume that such a claim waits for.
func volumeOf(claim *unstructured.Unstructured, id cluster.VolumeID, in string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume",
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "storageClassName": "ebs-sc", "capacity": map[string]any{"storage": "10Gi"},
			"persistentVolumeReclaimPolicy": "Retain",
			"csi":                           map[string]any{"driver": "ebs.csi.aws.com", "volumeHandle": string(id)},
			"claimRef":                      map[string]any{"namespace": "tidb", "name": claim.GetName()},
			"nodeAffinity": map[string]any{"required": map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{
				map[string]any{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": []any{in}},
			}}}}},
		},
	}}
	o.SetName(text(claim, "spec", "volumeName"))
	return o
}

// premade makes a cluster whose n stores and claims are there before the Operator may act, and lets it act.
func (l operatorLab) premade(t *testing.T, n int, gates ...any) {
	t.Helper()
	objects := kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: name, TiKV: n})
	field(t, gates, "spec", "featureGates")(objects[0])
	field(t, true, "spec", "paused")(objects[0])
	for _, o := range objects {
		if o.GetKind() != "TiDBGroup" {
			require.NoError(t, l.server.Put(o))
		}
	}
	group := l.server.List("tikvgroups", "tidb")[0]
	for i := range n {
		store := storeOf(group, fmt.Sprintf("aaaaa%d", i))
		field(t, map[string]any{zone: fmt.Sprintf("us-west-2%c", 'a'+i)}, "spec", "topology")(store)
		require.NoError(t, l.server.Put(store))
		store = l.server.Get("tikvs", "tidb", store.GetName())
		require.NoError(t, l.server.Put(claimOf(store, fmt.Sprintf("src-kv0-tikv-aaaaa%d", i))))
	}
	l.set(t, "clusters", "src", field(t, false, "spec", "paused"))
}

// touch changes a claim, so that the binder looks at it again.
func (l operatorLab) touch(t *testing.T, claim string) {
	t.Helper()
	l.set(t, "persistentvolumeclaims", claim, func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"touched": "yes"}) })
}

func TestFacts_StoresMadeBefore_AreAdoptedByTheirLabels(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.premade(t, 2)
	l.eventually(t, "all have the group's revision", func() bool {
		group := l.server.Get("tikvgroups", "tidb", "src-kv0")
		updated, _, _ := unstructured.NestedInt64(group.Object, "status", "updatedReplicas")
		return updated == 2 && len(l.server.List("pods", "tidb")) == 3
	})
	for i, store := range l.server.List("tikvs", "tidb") {
		require.Equal(t, fmt.Sprintf("src-kv0-aaaaa%d", i), store.GetName(), "none is added")
		require.Equal(t, map[string]any{zone: fmt.Sprintf("us-west-2%c", 'a'+i)}, store.Object["spec"].(map[string]any)["topology"])
		offline, _, _ := unstructured.NestedBool(store.Object, "spec", "offline")
		require.False(t, offline)
	}
	l.remains(t, "claims name volumes that are not there: nothing is provisioned", func() bool {
		pod := l.server.Get("pods", "tidb", "src-kv0-tikv-aaaaa0")
		return len(l.server.List("persistentvolumes", "")) == 0 && text(pod, "spec", "nodeName") == ""
	})
	for i, store := range l.server.List("tikvs", "tidb") {
		claim := l.server.Get("persistentvolumeclaims", "tidb", fmt.Sprintf("data-src-kv0-tikv-aaaaa%d", i))
		require.Equal(t, store.GetUID(), claim.GetOwnerReferences()[0].UID)
		id, in := cluster.VolumeID(fmt.Sprintf("vol-%d", i)), fmt.Sprintf("us-west-2%c", 'a'+i)
		l.disks.Add(id, cluster.Zone(in), true)
		require.NoError(t, l.server.Put(volumeOf(claim, id, in)))
		l.touch(t, claim.GetName())
	}
	l.eventually(t, "the stores run on the volumes", func() bool { return len(l.disks.Attached()) == 2 && len(l.runtime.Starts()) == 2 })
	require.Empty(t, l.disks.Modified(), "size and class are the template's")
	for i := range 2 {
		pod := l.server.Get("pods", "tidb", fmt.Sprintf("src-kv0-tikv-aaaaa%d", i))
		require.Equal(t, fmt.Sprintf("node-%d", i), text(pod, "spec", "nodeName"), "in its zone")
	}
}

// A group whose pods have the subdomain of the Cluster cannot update an instance with that of the group.
func TestFacts_StoresOfAnotherSubdomain_AreNeverUpdated(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.premade(t, 1, map[string]any{"name": "ClusterSubdomain"})
	l.eventually(t, "the Operator logs it", func() bool {
		return strings.Contains(l.log.String(), "cannot update TiKV src-kv0-aaaaa0 from subdomain src-kv0-tikv-peer to src-cluster: field is immutable")
	})
	require.Empty(t, l.server.Get("tikvs", "tidb", "src-kv0-aaaaa0").GetLabels()["pingcap.com/instance-revision-hash"])
}

func TestFacts_CurrentRevisionOfAStore_IsWrittenWhenItIsReady(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.premade(t, 1)
	const pod = "src-kv0-tikv-aaaaa0"
	revision := func(of string) string {
		return text(l.server.Get("tikvs", "tidb", "src-kv0-aaaaa0"), "status", of+"Revision")
	}
	l.eventually(t, "it is stamped", func() bool { return revision("update") != "" })
	l.remains(t, "it is not ready", func() bool { return revision("current") == "" })
	claim := l.server.Get("persistentvolumeclaims", "tidb", "data-"+pod)
	l.disks.Add("vol-0", "us-west-2a", true)
	require.NoError(t, l.server.Put(volumeOf(claim, "vol-0", "us-west-2a")))
	l.touch(t, claim.GetName())
	l.eventually(t, "it is ready", func() bool { return revision("current") == revision("update") })
}

func TestFacts_ClaimBeforeItsVolume_IsBoundAtTheNextSyncOrWhenTouched(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.premade(t, 1)
	const pod = "src-kv0-tikv-aaaaa0"
	l.eventually(t, "its pod waits", func() bool { return l.server.Get("pods", "tidb", pod) != nil })
	l.disks.Add("vol-0", "us-west-2a", true)
	require.NoError(t, l.server.Put(volumeOf(l.server.Get("persistentvolumeclaims", "tidb", "data-"+pod), "vol-0", "us-west-2a")))
	phase := func() string {
		return text(l.server.Get("persistentvolumeclaims", "tidb", "data-"+pod), "status", "phase")
	}
	l.remains(t, "not before 15 s have passed", func() bool { return phase() == "Pending" })
	l.touch(t, "data-"+pod)
	l.eventually(t, "bound", func() bool { return phase() == "Bound" })
}

func TestFacts_StoreWithoutOwner_PanicsInTheLogAlone(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	orphan := storeOf(l.server.List("tikvgroups", "tidb")[0], "orphan")
	orphan.SetOwnerReferences(nil)
	orphan.SetLabels(nil)
	require.NoError(t, l.server.Put(orphan))
	l.remains(t, "it has nothing", func() bool {
		return l.server.Get("pods", "tidb", "src-kv0-tikv-orphan") == nil && text(l.server.Get("tikvs", "tidb", orphan.GetName()), "status", "state") == ""
	})
	require.Contains(t, l.log.String(), "Observed a panic")
}

func TestFacts_FewerReplicas_SetAStoreOffline(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.make(t, kubetest.ClusterOptions{TiKV: 2})
	l.set(t, "tikvgroups", "src-kv0", field(t, int64(1), "spec", "replicas"))
	offline := func() (n int) {
		for _, o := range l.server.List("tikvs", "tidb") {
			if is, _, _ := unstructured.NestedBool(o.Object, "spec", "offline"); is {
				n++
			}
		}
		return n
	}
	l.eventually(t, "one is offline", func() bool { return offline() == 1 })
	l.remains(t, "both are there", func() bool {
		return offline() == 1 && len(l.runtime.Starts()) == 2 && len(l.server.List("tikvs", "tidb")) == 2
	})
}

func TestFacts_CountQuota_KeepsTheOperatorFromOneMoreStore(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	quota := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ResourceQuota", "spec": map[string]any{"hard": map[string]any{"count/tikvs.core.pingcap.com": "1"}},
	}}
	quota.SetNamespace("tidb")
	quota.SetName("stores")
	require.NoError(t, l.server.Put(quota))
	l.set(t, "tikvgroups", "src-kv0", field(t, int64(2), "spec", "replicas"))
	l.remains(t, "no other store", func() bool { return len(l.server.List("tikvs", "tidb")) == 1 })
	require.Contains(t, l.log.String(), "exceeded quota")
}

func TestFacts_VolumeOtherThanTheTemplate_IsModified(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.make(t, kubetest.ClusterOptions{TiKV: 1, SizeGiB: 10})
	template := func(o *unstructured.Unstructured) map[string]any {
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "volumes")
		volume, _ := list[0].(map[string]any)
		return volume
	}
	resize := func(size string) {
		l.set(t, "tikvgroups", "src-kv0", func(o *unstructured.Unstructured) {
			volume := template(o)
			volume["storage"] = size
			require.NoError(t, unstructured.SetNestedSlice(o.Object, []any{volume}, "spec", "template", "spec", "volumes"))
		})
	}
	require.Empty(t, l.disks.Modified())
	starts := len(l.runtime.Starts())
	resize("20Gi")
	l.eventually(t, "modified", func() bool { return len(l.disks.Modified()) == 1 })
	claim := func() *unstructured.Unstructured { return l.server.List("persistentvolumeclaims", "tidb")[0] }
	l.eventually(t, "written", func() bool { return claim().GetAnnotations()["status.tidb.pingcap.com/storage-size"] == "20Gi" })
	resize("5Gi")
	l.remains(t, "it is not made smaller", func() bool { return len(l.disks.Modified()) == 1 })
	require.Contains(t, l.log.String(), "can't shrunk size")
	require.Len(t, l.runtime.Starts(), starts, "no pod is touched")
}

func TestFacts_StoreOfManyRegions_IsReadyOnlyAsALeader(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	store := l.server.List("tikvs", "tidb")[0].GetName()
	pod := l.server.Get("pods", "tidb", "src-kv0-tikv-"+store[len("src-kv0-"):]).GetName()
	l.runtime.SetRegions("tidb", pod, 0, 100)
	require.NoError(t, l.server.Put(configMapOf(t, l))) // something changes
	l.eventually(t, "not ready", func() bool { return !l.is("tikvs", store, "Ready") && l.is("tikvs", store, "Running") })
	l.runtime.SetRegions("tidb", pod, 1, 100)
	require.NoError(t, l.server.Put(configMapOf(t, l)))
	l.eventually(t, "ready", func() bool { return l.is("tikvs", store, "Ready") })
}

func TestFacts_PodOfAStoreDeleted_IsMadeAgainOnItsVolumes(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.make(t, kubetest.ClusterOptions{TiKV: 1})
	first := l.runtime.Starts()[0]
	require.NoError(t, l.server.Remove(l.server.Get("pods", "tidb", first.Pod)))
	l.eventually(t, "started again", func() bool { return len(l.runtime.Starts()) == 2 })
	require.Equal(t, first, l.runtime.Starts()[1])
}

func TestFacts_SecretsOfOperator2_AreNamedAfterTheGroups(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: name, TiKV: 1, TLS: true}) {
		require.NoError(t, l.server.Put(o))
	}
	for _, secret := range []string{"src-pd-pd-cluster-secret", "src-kv0-tikv-cluster-secret", "src-db-tidb-cluster-secret"} {
		l.eventually(t, secret, func() bool {
			for _, e := range l.server.List("events", "tidb") {
				if strings.Contains(text(e, "message"), fmt.Sprintf("secret %q not found", secret)) {
					return true
				}
			}
			return false
		})
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
		o.SetNamespace("tidb")
		o.SetName(secret)
		require.NoError(t, l.server.Put(o))
	}
	l.eventually(t, "available", func() bool { return l.is("clusters", "src", "Available") })
}

func TestFacts_EvenlySpreadGroup_HasItsPodsWhereTheirInstancesAre(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b", "us-west-2c")
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: name, TiKV: 4}) {
		if o.GetKind() == "TiKVGroup" {
			spread := map[string]any{"topologies": []any{
				map[string]any{"topology": map[string]any{zone: "us-west-2b"}}, map[string]any{"topology": map[string]any{zone: "us-west-2c"}},
			}}
			policies := []any{map[string]any{"type": "EvenlySpread", "evenlySpread": spread}}
			require.NoError(t, unstructured.SetNestedSlice(o.Object, policies, "spec", "schedulePolicies"))
		}
		require.NoError(t, l.server.Put(o))
	}
	l.eventually(t, "four run", func() bool { return len(l.runtime.Starts()) == 4 })
	stores := map[string]int{}
	for _, start := range l.runtime.Starts() {
		stores[text(l.server.Get("pods", "tidb", start.Pod), "spec", "nodeName")]++
	}
	require.Equal(t, map[string]int{"node-1": 2, "node-2": 2}, stores)
}

// The Operator changes one instance in each step, so that its group's status counts them.
func TestFacts_OutdatedInstances_AreStampedOneByOne(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.premade(t, 3)
	updated := func(o *unstructured.Unstructured) int64 {
		n, _, _ := unstructured.NestedInt64(o.Object, "status", "updatedReplicas")
		return n
	}
	l.eventually(t, "all are", func() bool { return updated(l.server.Get("tikvgroups", "tidb", "src-kv0")) == 3 })
	require.NoError(t, l.server.Start(t.Context()))
	t.Cleanup(l.server.Close)
	config, err := clientcmd.RESTConfigFromKubeConfig(l.server.Kubeconfig())
	require.NoError(t, err)
	api, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	changes, err := api.Resource(schema.GroupVersionResource{Group: "core.pingcap.com", Version: "v1alpha1", Resource: "tikvgroups"}).
		Namespace("tidb").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	require.NoError(t, err)
	defer changes.Stop()
	seen := map[int64]bool{}
	for !seen[3] {
		change := <-changes.ResultChan()
		o, ok := change.Object.(*unstructured.Unstructured)
		require.True(t, ok)
		seen[updated(o)] = true
	}
	require.Equal(t, map[int64]bool{0: true, 1: true, 2: true, 3: true}, seen)
}
