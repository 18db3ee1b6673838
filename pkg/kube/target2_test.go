package kube_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// core is a restore of a cluster of TiDB Operator 2.x.
type core struct {
	*lab
	source  json.RawMessage
	to      kube.Target
	volumes []kube.RestoredVolume
}

// backUpCore makes a cluster of TiDB Operator 2.x, and what its restore as "dst" begins with.
func (l *lab) backUpCore(t *testing.T) *core {
	t.Helper()
	read, pods := l.startCore(t, kubetest.ClusterOptions{Name: source("src"), TiKV: 3, TiKVGroups: 2, RaftLogVolume: true})
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": read.Objects})
	require.NoError(t, err)
	r := &core{lab: l, source: list, to: kube.Target{Name: source("dst"), Run: run}}
	for i, p := range pods {
		for _, m := range p.Mounts {
			id := cluster.VolumeID(fmt.Sprintf("vol-restored-%d-%s", i, strings.ReplaceAll(string(m.Role), ":", "")))
			l.disks.Add(id, p.Zone, true)
			r.volumes = append(r.volumes, kube.RestoredVolume{
				Cluster: r.to.Name, Run: run, Ordinal: i, Role: m.Role, MountPath: m.MountPath, Volume: id, Zone: p.Zone,
				SizeGiB: 100, Claim: m.Claim,
				Object: json.RawMessage(strings.Replace(string(m.Object), `"Retain"`, `"Delete"`, 1)),
			})
		}
	}
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	return r
}

func (r *core) create(t *testing.T) {
	t.Helper()
	require.NoError(t, r.client.CreateCluster(t.Context(), r.source, r.to, r.volumes...))
}

// storePods lists the pods of the target's stores.
func (r *core) storePods() (all []*unstructured.Unstructured) {
	for _, o := range r.server.List("pods", "tidb") {
		if of := o.GetLabels(); of["pingcap.com/cluster"] == "dst" && of["pingcap.com/component"] == "tikv" {
			all = append(all, o)
		}
	}
	return all
}

// awaitGate waits until the stores have pods, none of which can start.
func (r *core) awaitGate(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.storePods()) == 3 }, patience, 5*time.Millisecond)
	for _, pod := range r.storePods() {
		require.Empty(t, pod.Object["spec"].(map[string]any)["nodeName"], "its volumes are not there")
	}
}

func (r *core) start(t *testing.T) []kube.Pod {
	t.Helper()
	for _, v := range r.volumes {
		require.NoError(t, r.client.BindVolume(t.Context(), v))
	}
	r.awaitGate(t)
	require.NoError(t, r.client.StartTiKV(t.Context(), r.to.Name, r.volumes...))
	return r.awaitReady(t, r.to.Name, 3)
}

// nothing requires that nothing of the target is left but the run's EBS volumes.
func (r *core) nothing(t *testing.T) {
	t.Helper()
	for _, resource := range []string{
		"clusters", "pdgroups", "tikvgroups", "tidbgroups", "tikvs", "pds", "tidbs", "pods", "persistentvolumeclaims",
	} {
		for _, o := range r.server.List(resource, "tidb") {
			require.NotContains(t, strings.Split(o.GetName(), "-"), "dst", resource) // a random end may have these letters
		}
	}
	require.Empty(t, r.policies("tisnap-"))
	for _, v := range r.volumes {
		require.NotEmpty(t, r.disks.Zone(v.Volume), "the run deletes it, not Kubernetes")
	}
	require.Len(t, r.server.List("tikvs", "tidb"), 3, "the source's")
}

func TestTarget2_WholeRestore_UsesAllPermissionsAndNothingElse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.backUpCore(t)
	l.server.ForgetGroup("pingcap.com")
	asked := map[string]bool{}
	for _, p := range kube.Permissions(r.source) {
		asked[p] = true
	}
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
		for _, resource := range []string{
			"clusters", "pdgroups", "tikvgroups", "tidbgroups", "tikvs", "pods", "persistentvolumes", "persistentvolumeclaims",
			"nodes", "resourcequotas",
		} {
			if !asked[verb+" "+resource] {
				l.server.Deny(verb, resource)
			}
		}
	}
	ctx, name := t.Context(), r.to.Name
	require.NoError(t, l.client.Allowed(ctx, "tidb", r.source))
	checked, err := kube.CheckRestored(r.source, r.to, r.volumes)
	require.NoError(t, err)
	require.Len(t, checked.Names, 6)
	before := l.server.MutatingCalls()
	require.NoError(t, l.client.DryRun(ctx, r.source, r.to, r.volumes, false))
	require.Equal(t, before, l.server.MutatingCalls(), "a dry run makes nothing")
	r.create(t)
	r.create(t) // again
	pods := r.start(t)
	byPod := map[string]kube.Pod{}
	for _, p := range pods {
		byPod[p.Name] = p
	}
	for i, n := range checked.Names {
		require.Contains(t, byPod, n.Pod)
		found := false
		for _, m := range byPod[n.Pod].Mounts {
			found = found || m.PVC == n.Claim && m.PV == n.PV && m.Volume == r.volumes[i].Volume && m.Role == r.volumes[i].Role
		}
		require.True(t, found, "%s has volume %s as %s", n.Pod, r.volumes[i].Volume, r.volumes[i].Role)
	}
	require.Empty(t, l.disks.Modified())
	tc, err := l.client.Cluster(ctx, name)
	require.NoError(t, err)
	require.True(t, tc.RecoveryMode)
	require.Equal(t, []any{run, 1, 3, 0}, []any{tc.Run, tc.PDReady, tc.TiKVReplicas, tc.TiDBReplicas})
	require.Equal(t, "Retain Retain Retain Retain Retain Retain", l.policies("tisnap-"))
	loops, err := l.client.CrashLoops(ctx, name, 1)
	require.NoError(t, err)
	require.Empty(t, loops)
	_, err = l.client.Waiting(ctx, name)
	require.NoError(t, err)
	_, err = l.client.MadeForTarget(ctx, name, run)
	require.NoError(t, err)

	require.NoError(t, l.client.LeaveRecovery(ctx, name))
	require.NoError(t, l.client.LeaveRecovery(ctx, name), "again")
	require.Eventually(t, func() bool {
		now, err := l.client.TiKVPods(ctx, name)
		return err == nil && len(now) == 3 && allReady(now) && len(r.storePods()) == 3
	}, patience, 5*time.Millisecond)
	require.NoError(t, l.client.StartTiDB(ctx, name))
	require.NoError(t, l.client.StartTiDB(ctx, name), "again")
	require.Eventually(t, func() bool {
		tc, err = l.client.Cluster(ctx, name)
		return err == nil && tc.TiDBReplicas == 1 && tc.TiDBReady == 1
	}, patience, 5*time.Millisecond)
	require.False(t, tc.RecoveryMode)
	require.Equal(t, "Delete Delete Delete Delete Delete Delete", l.policies("tisnap-"), "those of the source")
	running, err := l.client.TiDBPods(ctx, name)
	require.NoError(t, err)
	require.Len(t, running, 1)
	err = l.client.DeleteCluster(ctx, name, run, false)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "it serves: %v", err)
	for _, p := range []string{"create tikvs", "create tikvgroups", "create clusters", "update clusters", "update persistentvolumeclaims", "delete pods"} {
		verb, resource, _ := strings.Cut(p, " ")
		assert.True(t, asked[p], p)
		assert.NotZero(t, l.faults.Calls("kube."+verb+"."+resource), "%s is asked for and never used", p)
	}
}

// Whatever the run has made so far goes, and nothing else.
func TestTarget2_Delete_AtAnyStage(t *testing.T) {
	t.Parallel()
	for name, reach := range map[string]func(*testing.T, *core){
		"not made": func(*testing.T, *core) {},
		"made":     func(t *testing.T, r *core) { r.create(t); r.awaitGate(t) },
		"started":  func(t *testing.T, r *core) { r.create(t); r.start(t) },
		"paused": func(t *testing.T, r *core) {
			l := r.lab
			l.server.Deny("update", "clusters")
			require.Error(t, r.client.CreateCluster(t.Context(), r.source, r.to, r.volumes...))
			l.server.Allow("update", "clusters")
			require.Len(t, l.server.List("tikvs", "tidb"), 6)
		},
		"gone, and its parts are left": func(t *testing.T, r *core) {
			l := r.lab
			l.server.Deny("update", "clusters")
			require.Error(t, r.client.CreateCluster(t.Context(), r.source, r.to, r.volumes...))
			l.server.Allow("update", "clusters")
			require.NoError(t, l.server.Remove(l.server.Get("clusters", "tidb", "dst")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newLab(t).backUpCore(t)
			reach(t, r)
			require.NoError(t, r.client.DeleteCluster(t.Context(), r.to.Name, run, false))
			r.nothing(t)
			require.NoError(t, r.client.DeleteCluster(t.Context(), r.to.Name, run, false), "again")
		})
	}
}

// Nothing of a Cluster that the Operator does not know yet is deleted by it: it is waited for.
func TestTarget2_Delete_OperatorAway_WaitsForIt(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	away := newServer(t)
	r.lab = away
	r.create(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := away.client.DeleteCluster(ctx, r.to.Name, run, false)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "has not taken notice of it")
	require.NotNil(t, away.server.Get("clusters", "tidb", "dst"))
	require.Len(t, away.server.List("tikvs", "tidb"), 3)
}

func TestTarget2_GroupOfAnEarlierCluster_IsRefused(t *testing.T) { //nolint:tparallel // the parts share a lab
	t.Parallel()
	r := newLab(t).backUpCore(t)
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source("dst"), TiKV: 1}) {
		if o.GetKind() == "PDGroup" {
			require.NoError(t, r.server.Put(o))
		}
	}
	for name, try := range map[string]func() error{
		"dry run": func() error { return r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false) },
		"create":  func() error { return r.client.CreateCluster(t.Context(), r.source, r.to, r.volumes...) },
	} {
		t.Run(name, func(t *testing.T) {
			err := try()
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "PDGroup dst-pd names it as its cluster")
			require.Nil(t, r.server.Get("clusters", "tidb", "dst"))
		})
	}
}

// A claim that is touched before the binder has seen its volume waits for the binder's resync, up to 15 s.
func TestTarget2_VolumeIsNotAvailableYet_ItsClaimIsTouchedAfterThat(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	r.lab = openServer(t, patience, refusalPatience) // without a binder
	require.NoError(t, r.server.AddStorageClass("ebs-sc"))
	r.create(t)
	one := r.volumes[0]
	started := make(chan error, 1)
	go func() { started <- r.client.StartTiKV(t.Context(), r.to.Name, one) }()
	require.Eventually(t, func() bool { return r.policies("tisnap-") != "" }, patience, time.Millisecond)
	touched := func() bool {
		return slices.ContainsFunc(r.server.List("persistentvolumeclaims", "tidb"), func(o *unstructured.Unstructured) bool {
			return o.GetAnnotations()["tisnap.io/volume"] == string(one.Volume)
		})
	}
	require.Never(t, touched, 250*time.Millisecond, 10*time.Millisecond)
	for _, pv := range r.server.List("persistentvolumes", "") {
		if strings.HasPrefix(pv.GetName(), "tisnap-") {
			require.NoError(t, unstructured.SetNestedField(pv.Object, "Available", "status", "phase"))
			require.NoError(t, r.server.Put(pv))
		}
	}
	require.NoError(t, <-started)
	require.True(t, touched())
}

// A target's PVs have the class of its claims: that of the groups' templates, which may be another than the source's volumes were
// made with, as the Operator modifies volumes, or else the default of the target's Kubernetes cluster.
func TestTarget2_ClassOfTheTemplate_IsThatOfItsVolumes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ class, driver string }{
		`"storageClassName":"faster"`: {"faster", "ebs.csi.aws.com"}, `"none":""`: {"auto", "ebs.csi.eks.amazonaws.com"},
	} {
		t.Run(row.class, func(t *testing.T) {
			t.Parallel()
			r := newLab(t).backUpCore(t)
			r.source = json.RawMessage(strings.ReplaceAll(string(r.source), `"storageClassName":"ebs-sc"`, name))
			require.NoError(t, r.server.AddStorageClass("faster"))
			require.NoError(t, r.server.AddStorageClassOf("auto", "ebs.csi.eks.amazonaws.com"))
			if row.class == "auto" {
				err := r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false)
				require.Equal(t, failure.Unready, failure.KindOf(err), "there is no default class: %v", err)
				class := r.server.Get("storageclasses", "", "auto")
				class.SetAnnotations(map[string]string{"storageclass.kubernetes.io/is-default-class": "true"})
				require.NoError(t, r.server.Put(class))
			}
			require.NoError(t, r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false))
			r.create(t)
			r.start(t)
			for _, pv := range r.server.List("persistentvolumes", "") {
				if strings.HasPrefix(pv.GetName(), "tisnap-") {
					class, _, _ := unstructured.NestedString(pv.Object, "spec", "storageClassName")
					driver, _, _ := unstructured.NestedString(pv.Object, "spec", "csi", "driver")
					require.Equal(t, row, struct{ class, driver string }{class, driver})
				}
			}
			require.Empty(t, r.disks.Modified())
		})
	}
}

func TestTarget2_LockLost_NoStoreIsStarted(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	r.create(t)
	lost := errors.New("the lock is lost")
	ctx := fenced.With(t.Context(), func(context.Context) error { return lost })
	require.ErrorIs(t, r.client.StartTiKV(ctx, r.to.Name, r.volumes...), lost)
	require.Empty(t, r.policies("tisnap-"), "no volume")
}

// Another run's target, and one that someone else made, stay.
func TestTarget2_Foreign_Stays(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	r.create(t)
	for _, try := range []error{
		r.client.DeleteCluster(t.Context(), r.to.Name, "other", false),
		r.client.DeleteCluster(t.Context(), source("src"), run, false),
		r.client.CreateCluster(t.Context(), r.source, kube.Target{Name: r.to.Name, Run: "other"}, r.volumes...),
		r.client.CreateCluster(t.Context(), r.source, kube.Target{Name: source("src"), Run: run}, r.volumes...),
	} {
		require.Equal(t, failure.Conflict, failure.KindOf(try), "%v", try)
	}
	require.Len(t, r.server.List("clusters", "tidb"), 2)
}

// The run no longer has a target, and what names the same cluster is not the run's: with or without a Cluster.
func TestTarget2_ObjectsOfAnother_Stay(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	var groups []string
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: source("dst"), TiKV: 1}) {
		if o.GetKind() != "Cluster" {
			o.SetFinalizers([]string{"core.pingcap.com/finalizer"})
			require.NoError(t, l.server.Put(o))
			groups = append(groups, strings.ToLower(o.GetKind())+"s")
		}
	}
	require.NoError(t, l.client.DeleteCluster(t.Context(), source("dst"), run, false))
	for _, resource := range groups {
		all := l.server.List(resource, "tidb")
		require.Len(t, all, 1, resource)
		require.NotEmpty(t, all[0].GetFinalizers(), resource)
	}
}

// What a dead restore left is found and deleted by gc.
func TestTarget2_Leftover_IsFoundAndDeleted(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	r.create(t)
	r.start(t)
	found, err := r.client.Leftover(t.Context(), r.to.Name, run)
	require.NoError(t, err)
	require.Empty(t, found.Serves)
	require.NotEmpty(t, found.UID)
	require.Len(t, found.Claims, 6)
	require.Len(t, found.Handles, 6)
	other, err := r.client.Leftover(t.Context(), r.to.Name, "other")
	require.NoError(t, err)
	require.NotEmpty(t, other.Serves)
	require.True(t, other.Empty())
	require.NoError(t, r.client.DeleteLeftover(t.Context(), found))
	r.nothing(t)
}

// The groups that come last are made when the data are resolved: what is against them is found before anything is made.
func TestTarget2_DryRun_TriesTheGroupsThatComeLast(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.backUpCore(t)
	l.server.Deny("create", "tidbgroups")
	err := l.client.DryRun(t.Context(), r.source, r.to, r.volumes, false)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "TiDBGroup")
}

func TestAllowed_OperatorOfTheTargetIsAbsent_IsRefused(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ absent, source, want string }{
		"1.x": {"pingcap.com", `{"kind":"TidbCluster"}`, "TiDB Operator 1.x"},
		"2.x": {"core.pingcap.com", `{"kind":"List","items":[]}`, "TiDB Operator 2.x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			require.NoError(t, l.client.Allowed(t.Context(), "tidb", json.RawMessage(row.source)))
			l.server.ForgetGroup(row.absent)
			err := l.client.Allowed(t.Context(), "tidb", json.RawMessage(row.source))
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
			require.Contains(t, failure.HintOf(err), "install "+row.want)
		})
	}
}

// An Operator of another version than the source's lacks what its cluster has: that is found before anything is made.
func TestTarget2_DryRun_DefinitionsOfAnotherVersion_Unready(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		patch, want string
	}{
		"a field": {
			`{"kind":"TiDBGroup","metadata":{"name":"dst-db"},"spec":{"template":{"spec":{"keyspace":"a"}}}}`,
			`unknown field "spec.template.spec.keyspace"`,
		},
		"a feature gate": {`{"kind":"Cluster","metadata":{"name":"dst"},"spec":{"featureGates":[{"name":"New"}]}}`, `Unsupported value: "New"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.server.ForgetField("tidbgroups", "spec.template.spec.keyspace")
			r := l.backUpCore(t)
			require.NoError(t, r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false))
			r.to.Changes.Patches = []json.RawMessage{[]byte(row.patch)}
			err := r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false)
			require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.want)
			require.Contains(t, failure.HintOf(err), "install the version of TiDB Operator that the source has")
		})
	}
}
