package kube_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/testbed/plane"
	"github.com/tisnap/tisnap/pkg/wait"
)

// drilled is a control plane that knows the resources of TiDB Operator 2.x, without their schemas unless a real one is at hand,
// and has no Operator.
type drilled struct {
	system
	own *plane.Plane
}

// drillRules are those of the roles of a drill.
func drillRules(t *testing.T) []rbacv1.PolicyRule {
	t.Helper()
	return append(clusterRole(t, "../../manifests/rbac.yaml"), clusterRole(t, "../../manifests/rbac-drill.yaml")...)
}

func openDrilled(t *testing.T) drilled {
	t.Helper()
	s, own := openOwn(t, 0)
	if os.Getenv(realOperator2) != "" {
		s.serveOperator2(t)
		return drilled{s, own}
	}
	for _, kind := range []string{"Cluster", "TiKV", "PDGroup", "TiKVGroup", "TiDBGroup", "TiFlashGroup", "TiCDCGroup", "TiProxyGroup"} {
		plural := operator2.ResourceOf(kind).Resource
		_, err := s.dynamic.Resource(definitions()).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": plural + "." + operator2.Group()},
			"spec": map[string]any{
				"group": operator2.Group(), "scope": "Namespaced",
				"names": map[string]any{"plural": plural, "kind": kind, "singular": strings.ToLower(kind)},
				"versions": []any{map[string]any{
					"name": "v1alpha1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
				}},
			},
		}}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	s.awaitOperator2(t)
	return drilled{s, own}
}

// as is the adapter of an account with these rules.
func (d drilled) as(t *testing.T, rules []rbacv1.PolicyRule) *kube.Client {
	t.Helper()
	account := d.serviceAccount(t, rules)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, d.own.WriteKubeconfig(path, token(t, d.core, d.namespace, account, account), d.namespace))
	return adapter(t, kube.Config{Kubeconfig: path})
}

// awaitMissing waits until the authorizer knows the account's role, with which a drill lacks these permissions.
func awaitMissing(t *testing.T, client *kube.Client, want ...string) {
	t.Helper()
	var missing []string
	eventually(t, "a drill lacks "+strings.Join(want, ", "), func() bool {
		var err error
		missing, err = client.MissingForDrill(t.Context())
		return err == nil && slices.Equal(missing, want)
	})
}

// The check of a drill names each verb that its roles lack, also of TiDB Operator 2.x: the real authorizer has the last word.
func TestDrillRoles_EachVerbTakenAway_IsNamed(t *testing.T) {
	t.Parallel()
	d := openDrilled(t)
	rules := drillRules(t)
	awaitMissing(t, d.as(t, rules))
	for _, rule := range rules {
		group := rule.APIGroups[0]
		if group != operator2.Group() && !slices.ContainsFunc(clusterRole(t, "../../manifests/rbac-drill.yaml"), func(r rbacv1.PolicyRule) bool {
			return slices.Equal(r.Resources, rule.Resources) && slices.Equal(r.Verbs, rule.Verbs)
		}) {
			continue // another test takes those of 1.x away
		}
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				named := strings.TrimSuffix(verb+" "+resource+"."+group, ".")
				if resource == "pods/portforward" {
					continue // needed from outside alone
				}
				t.Run(named, func(t *testing.T) {
					t.Parallel()
					awaitMissing(t, d.as(t, without(rules, verb, resource)), named)
				})
			}
		}
	}
}

// coreSource is a cluster of TiDB Operator 2.x with one store, as it is in a backup, and its volume.
func (d drilled) coreSource(t *testing.T, name cluster.Name) (json.RawMessage, kube.RestoredVolume) {
	t.Helper()
	v := d.volume(t, "", 0)
	var claim map[string]any
	require.NoError(t, json.Unmarshal(v.Claim, &claim))
	claim["metadata"].(map[string]any)["name"] = "tikv-src-tikv-0"
	raw, err := json.Marshal(claim)
	require.NoError(t, err)
	var o unstructured.Unstructured
	require.NoError(t, o.UnmarshalJSON(source(t)))
	require.NoError(t, unstructured.SetNestedField(o.Object, int64(1), "spec", "tikv", "replicas"))
	one, err := o.MarshalJSON()
	require.NoError(t, err)
	made, err := operator2.Translate(one, []json.RawMessage{raw})
	require.NoError(t, err)
	v.Cluster, v.Claim = name, made.Claims[0]
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": made.Objects})
	require.NoError(t, err)
	return list, v
}

// playOperator2 has the Operator take notice of the Cluster, and delete its objects with it.
func (d drilled) playOperator2(t *testing.T, name cluster.Name, ended <-chan struct{}) {
	t.Helper()
	api := d.dynamic.Resource(operator2.Resource(operator2.Clusters)).Namespace(name.Namespace)
	eventually(t, "the cluster is gone", func() bool {
		o, err := api.Get(t.Context(), name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true
		case err != nil:
			return false
		case o.GetDeletionTimestamp() == nil && len(o.GetFinalizers()) == 0:
			o.SetFinalizers([]string{"pingcap.com/finalizer"})
		case o.GetDeletionTimestamp() != nil:
			o.SetFinalizers(nil)
		default:
			return false
		}
		_, _ = api.Update(t.Context(), o, metav1.UpdateOptions{}) // another try follows
		return false
	})
	select {
	case <-ended:
	case <-time.After(patience):
		require.Fail(t, "the removal does not end")
	}
}

// With its roles, and no more, a drill makes its cage, proves it, restores a cluster of TiDB Operator 2.x into it, and removes all
// of that. Its probes fit a restricted namespace, and each ends in time: what the API server keeps cannot be prolonged.
func TestDrillRoles_AreEnoughForADrillOfOperator2(t *testing.T) {
	t.Parallel()
	d := openDrilled(t)
	d.runProbes(t)
	_, err := d.core.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "ebs.csi.aws.com",
	}, metav1.CreateOptions{})
	require.True(t, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
	const outside = "production"
	_, err = d.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: outside, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	client := d.as(t, drillRules(t))
	awaitMissing(t, client)
	ctx, cages := t.Context(), client.Cages()
	made, err := cages.Make(ctx, cage.Spec{
		Run: d.run, Storage: "storage", Expires: time.Now().Add(time.Hour), From: []string{"tidb-admin"}, Pods: 20, Claims: 9, StorageGiB: 100,
	})
	require.NoError(t, err)

	probes := client.Probes(d.run, "busybox:1.37")
	require.NoError(t, cage.Prove(ctx, probes, made, outside))
	d.probesEnd(t, probes, outside)

	name := cluster.Name{Namespace: made.Namespace, Name: "src"}
	from, v := d.coreSource(t, name)
	to := kube.Target{Name: name, Run: d.run}
	to.Changes.Smallest = true
	require.NoError(t, client.Allowed(ctx, name.Namespace, from))
	require.NoError(t, client.DryRun(ctx, from, to, []kube.RestoredVolume{v}, false))
	require.NoError(t, client.CreateCluster(ctx, from, to, v))
	require.NoError(t, client.BindVolume(ctx, v))
	require.NoError(t, client.StartTiKV(ctx, name, v))
	require.NoError(t, client.StartTiDB(ctx, name))
	found, err := client.Cluster(ctx, name)
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1}, []int{found.PDReplicas, found.TiKVReplicas, found.TiDBReplicas})

	ended := make(chan struct{})
	var removed error
	go func() {
		defer close(ended)
		removed = client.RemoveCaged(ctx, name, d.run, made.UID)
	}()
	d.playOperator2(t, name, ended)
	require.NoError(t, removed)
	require.NoError(t, cages.RemoveProbes(ctx, d.run, outside))
	require.NoError(t, cages.Remove(ctx, made))
	require.Empty(t, d.volumes(t))
	left, err := cages.List(ctx)
	require.NoError(t, err)
	require.Empty(t, left)
}

// runProbes plays the kubelet of probes, in a network that keeps to policies.
func (d drilled) runProbes(t *testing.T) {
	t.Helper()
	address := func(namespace string) string {
		if cage.Is(namespace) {
			return "10.0.0.1"
		}
		return "10.0.0.2"
	}
	runs := func(pod *corev1.Pod) {
		command := pod.Spec.Containers[0].Command
		if slices.Contains(command, "-lk") {
			pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, address(pod.Namespace)
			pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
			return
		}
		ended := &corev1.ContainerStateTerminated{}
		if command[3] != address(pod.Namespace) {
			ended.ExitCode = 1
		}
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "probe", State: corev1.ContainerState{Terminated: ended}}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.For(ctx, poll) == nil {
			list, err := d.core.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: runmark.Key})
			if err != nil {
				continue
			}
			for _, pod := range list.Items {
				if pod.Status.Phase == corev1.PodPending && strings.HasPrefix(pod.Name, "tisnap-probe-") {
					runs(&pod)
					_, _ = d.core.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, &pod, metav1.UpdateOptions{}) // another try follows
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// probesEnd requires that no probe of a drill runs for ever, whatever becomes of the drill.
func (d drilled) probesEnd(t *testing.T, probes cage.Prober, namespace string) {
	t.Helper()
	_, err := probes.Listen(t.Context(), namespace, "listen")
	require.NoError(t, err)
	api := d.core.CoreV1().Pods(namespace)
	list, err := api.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, 1, "those of the proof are gone")
	pod := &list.Items[0]
	require.EqualValues(t, 30*60, *pod.Spec.ActiveDeadlineSeconds)
	require.Equal(t, corev1.RestartPolicyNever, pod.Spec.RestartPolicy)
	longer := int64(31 * 60)
	for _, deadline := range []*int64{&longer, nil} {
		changed := pod.DeepCopy()
		changed.Spec.ActiveDeadlineSeconds = deadline
		_, err := api.Update(t.Context(), changed, metav1.UpdateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v", err)
	}
}
