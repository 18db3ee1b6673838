package kubetest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// What the API of TiDB Operator 2.x does, by its definitions and its chart's policies.

func (f fixture) kind(resource string) dynamic.ResourceInterface {
	return f.dynamic.Resource(schema.GroupVersionResource{Group: "core.pingcap.com", Version: "v1alpha1", Resource: resource}).Namespace("tidb")
}

// storeOf is a TiKV of a group, as made by hand.
func storeOf(group *unstructured.Unstructured, suffix string) *unstructured.Unstructured {
	spec, _, _ := unstructured.NestedMap(group.Object, "spec", "template", "spec")
	spec["cluster"] = group.Object["spec"].(map[string]any)["cluster"]
	spec["subdomain"] = group.GetName() + "-tikv-peer"
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group.GetAPIVersion(), "kind": "TiKV", "spec": spec}}
	o.SetNamespace(group.GetNamespace())
	o.SetName(group.GetName() + "-" + suffix)
	o.SetFinalizers([]string{"pingcap.com/finalizer"})
	name, _, _ := unstructured.NestedString(group.Object, "spec", "cluster", "name")
	o.SetLabels(map[string]string{
		"pingcap.com/managed-by": "tidb-operator", "pingcap.com/component": "tikv", "pingcap.com/cluster": name, "pingcap.com/group": group.GetName(),
	})
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(group, group.GroupVersionKind())})
	return o
}

// byKind is the first object of a kind.
func byKind(list []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	for _, o := range list {
		if o.GetKind() == kind {
			return o
		}
	}
	return nil
}

func coreObjects() []*unstructured.Unstructured {
	return kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: name, TiKV: 1})
}

func TestFacts_LongNamesOfOperator2_AreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	group := byKind(coreObjects(), "TiKVGroup")
	for resource, row := range map[string]struct {
		limit int
		of    *unstructured.Unstructured
	}{
		"clusters": {37, byKind(coreObjects(), "Cluster")}, "tikvgroups": {40, group}, "tikvs": {47, storeOf(group, "a")},
	} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			o := row.of.DeepCopy()
			o.SetName(strings.Repeat("a", row.limit))
			_, err := f.kind(resource).Create(t.Context(), o, metav1.CreateOptions{})
			require.NoError(t, err)
			o.SetName(strings.Repeat("a", row.limit+1))
			_, err = f.kind(resource).Create(t.Context(), o, metav1.CreateOptions{})
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, "name must not exceed")
		})
	}
}

func TestFacts_WhatAnInstanceIsMadeWith_NeverChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made, err := f.kind("tikvs").Create(t.Context(), storeOf(byKind(coreObjects(), "TiKVGroup"), "a"), metav1.CreateOptions{})
	require.NoError(t, err)
	made.Object["spec"].(map[string]any)["offline"] = true
	made, err = f.kind("tikvs").Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	for message, change := range map[string]func(spec map[string]any){
		"cluster name is immutable": func(spec map[string]any) { spec["cluster"] = map[string]any{"name": "other"} },
		"subdomain is immutable":    func(spec map[string]any) { spec["subdomain"] = "other" },
		"topology is immutable": func(spec map[string]any) {
			spec["topology"] = map[string]any{"topology.kubernetes.io/zone": "us-west-2a"}
		},
		"data volume must be configured": func(spec map[string]any) { spec["volumes"] = []any{} },
	} {
		t.Run(message, func(t *testing.T) {
			t.Parallel()
			o := made.DeepCopy()
			change(o.Object["spec"].(map[string]any))
			_, err := f.kind("tikvs").Update(t.Context(), o, metav1.UpdateOptions{})
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, message)
		})
	}
}

func TestFacts_FinalizerOfOperator2_KeepsADeletedObject(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	group, err := f.kind("tikvgroups").Create(t.Context(), byKind(coreObjects(), "TiKVGroup"), metav1.CreateOptions{})
	require.NoError(t, err)
	store, err := f.kind("tikvs").Create(t.Context(), storeOf(group, "a"), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, f.kind("tikvgroups").Delete(t.Context(), group.GetName(), metav1.DeleteOptions{}))
	store, err = f.kind("tikvs").Get(t.Context(), store.GetName(), metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, store.GetDeletionTimestamp(), "its owner is gone")
	store.SetFinalizers(nil)
	_, err = f.kind("tikvs").Update(t.Context(), store, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = f.kind("tikvs").Get(t.Context(), store.GetName(), metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestFacts_CountQuota_RefusesOneMoreStore(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	quota, err := f.core.CoreV1().ResourceQuotas("tidb").Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "stores"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/tikvs.core.pingcap.com": quantity.MustParse("1")}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, quota.Spec.Hard, quota.Status.Hard)
	group := byKind(coreObjects(), "TiKVGroup")
	_, err = f.kind("tikvs").Create(t.Context(), storeOf(group, "a"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = f.kind("tikvs").Create(t.Context(), storeOf(group, "b"), metav1.CreateOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	require.ErrorContains(t, err, "exceeded quota: stores, requested: count/tikvs.core.pingcap.com=1, used: count/tikvs.core.pingcap.com=1, limited: count/tikvs.core.pingcap.com=1")
}

func TestFacts_ServiceQuota_CountsThoseOfOutside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.core.CoreV1().ResourceQuotas("tidb").Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "inside"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourceServicesLoadBalancers: quantity.MustParse("0"), corev1.ResourceServicesNodePorts: quantity.MustParse("0"),
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for kind, refused := range map[corev1.ServiceType]bool{
		corev1.ServiceTypeClusterIP: false, corev1.ServiceTypeNodePort: true, corev1.ServiceTypeLoadBalancer: true,
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			_, err := f.core.CoreV1().Services("tidb").Create(t.Context(), &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(string(kind))},
				Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 4000}}},
			}, metav1.CreateOptions{})
			require.Equal(t, refused, apierrors.IsForbidden(err), "%v", err)
			if refused {
				require.ErrorContains(t, err, "exceeded quota: inside")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestFacts_DeletePodOfAStore_NeedsAGracePeriod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	api := f.core.CoreV1().Pods("tidb")
	endless, short := int64(65535), int64(1)
	put := func(node string) {
		_, err := api.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a-tikv-b", Labels: map[string]string{"pingcap.com/managed-by": "tidb-operator", "pingcap.com/component": "tikv"}},
			Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: &endless, Containers: []corev1.Container{{Name: "tikv", Image: "tikv"}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	put("node-0")
	refused := func(grace *int64) {
		err := api.Delete(t.Context(), "a-tikv-b", metav1.DeleteOptions{GracePeriodSeconds: grace})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "gracePeriodSeconds(65535) is unset, it must be set when delete tikv pod")
	}
	refused(nil)
	refused(&endless)
	require.NoError(t, api.Delete(t.Context(), "a-tikv-b", metav1.DeleteOptions{GracePeriodSeconds: &short}))
	put("")
	require.NoError(t, api.Delete(t.Context(), "a-tikv-b", metav1.DeleteOptions{}), "it is on no node: the server fills in 0")
}

func TestFacts_GroupThatIsNotInstalled_IsNotServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	groups := func() []string {
		list, err := f.core.Discovery().ServerGroups()
		require.NoError(t, err)
		return metav1.ExtractGroupVersions(list)
	}
	require.Contains(t, groups(), "core.pingcap.com/v1alpha1")
	f.server.ForgetGroup("core.pingcap.com")
	require.NotContains(t, groups(), "core.pingcap.com/v1alpha1")
	_, err := f.kind("clusters").List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestFacts_FieldThatTheDefinitionsLack_IsDroppedOrRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.ForgetField("tikvgroups", "spec.minReadySeconds")
	group := byKind(coreObjects(), "TiKVGroup")
	require.NoError(t, unstructured.SetNestedField(group.Object, int64(5), "spec", "minReadySeconds"))
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	made, err := f.kind("tikvgroups").Create(t.Context(), group, dry)
	require.NoError(t, err)
	_, has, _ := unstructured.NestedFieldNoCopy(made.Object, "spec", "minReadySeconds")
	require.False(t, has)
	dry.FieldValidation = metav1.FieldValidationStrict
	_, err = f.kind("tikvgroups").Create(t.Context(), group, dry)
	require.True(t, apierrors.IsBadRequest(err), "%v", err)
	require.ErrorContains(t, err, `unknown field "spec.minReadySeconds"`)
}

func TestFacts_FeatureGateThatTheDefinitionLacks_IsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for gate, works := range map[string]bool{"ClusterSubdomain": true, "ClusterOfTomorrow": false} {
		o := byKind(coreObjects(), "Cluster")
		require.NoError(t, unstructured.SetNestedSlice(o.Object, []any{map[string]any{"name": gate}}, "spec", "featureGates"))
		_, err := f.kind("clusters").Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.Equal(t, !works, apierrors.IsInvalid(err), "%s: %v", gate, err)
	}
}

func TestFacts_MountWithoutAType_IsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for kind, works := range map[any]bool{"": false, "any": true, nil: false} {
		group := byKind(coreObjects(), "TiKVGroup")
		mount := map[string]any{"mountPath": "/more"}
		if kind != nil {
			mount["type"] = kind
		}
		volumes, _, _ := unstructured.NestedSlice(group.Object, "spec", "template", "spec", "volumes")
		volumes = append(volumes, map[string]any{"name": "more", "storage": "1Gi", "mounts": []any{mount}})
		require.NoError(t, unstructured.SetNestedSlice(group.Object, volumes, "spec", "template", "spec", "volumes"))
		_, err := f.kind("tikvgroups").Create(t.Context(), group, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.Equal(t, !works, apierrors.IsInvalid(err), "%v: %v", kind, err)
	}
}
