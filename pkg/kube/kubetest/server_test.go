package kubetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

type fixture struct {
	server  *kubetest.Server
	core    *kubernetes.Clientset
	dynamic *dynamic.DynamicClient
	http    *http.Client
	faults  *fault.Plan
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{faults: &fault.Plan{}}
	f.server = kubetest.New(kubetest.Config{Faults: f.faults})
	require.NoError(t, f.server.Start(t.Context()))
	t.Cleanup(f.server.Close)
	config, err := clientcmd.RESTConfigFromKubeConfig(f.server.Kubeconfig())
	require.NoError(t, err)
	config.QPS = -1
	f.http, err = rest.HTTPClientFor(config)
	require.NoError(t, err)
	t.Cleanup(f.http.CloseIdleConnections)
	f.core, err = kubernetes.NewForConfigAndClient(config, f.http)
	require.NoError(t, err)
	f.dynamic, err = dynamic.NewForConfigAndClient(config, f.http)
	require.NoError(t, err)
	return f
}

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "a", Labels: labels}, Data: map[string]string{"k": "v"}}
}

func TestServer_MutatingCalls_AreListed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	api := f.core.CoreV1().ConfigMaps("a")
	made, err := api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	assert.True(t, apierrors.IsAlreadyExists(err))
	_, err = api.Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, api.Delete(t.Context(), "x", metav1.DeleteOptions{}))
	assert.Equal(t, []string{
		"create configmaps a/x", "create configmaps a/x", "update configmaps a/x", "delete configmaps a/x",
	}, f.server.MutatingCalls())
}

func TestServer_DryRun_StoresNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	api := f.core.CoreV1().ConfigMaps("a")
	_, err := api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	require.NoError(t, err)
	assert.Nil(t, f.server.Get("configmaps", "a", "x"))
	assert.Empty(t, f.server.MutatingCalls())
}

func TestServer_Selectors_Choose(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	api := f.core.CoreV1().ConfigMaps("a")
	for i := range 4 {
		_, err := api.Create(t.Context(), configMap(fmt.Sprintf("x%d", i), map[string]string{"odd": fmt.Sprint(i%2 == 1)}), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	odd, err := api.List(t.Context(), metav1.ListOptions{LabelSelector: "odd=true"})
	require.NoError(t, err)
	assert.Len(t, odd.Items, 2)
	one, err := api.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=x2"})
	require.NoError(t, err)
	assert.Len(t, one.Items, 1)
	require.NoError(t, api.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}))
	rest, err := f.core.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, rest.Items, 2)
}

func TestServer_Invalid_IsRefusedAsTheRealOneDoes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, err := f.core.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	_, err = f.core.CoreV1().ConfigMaps("a").Create(t.Context(), configMap("Bad_Name", nil), metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	_, err = f.core.CoreV1().ConfigMaps("a").Create(t.Context(), configMap("x", map[string]string{"run": "a/b:c"}), metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	_, err = f.core.CoreV1().ConfigMaps("b").Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	assert.True(t, apierrors.IsBadRequest(err), "namespace of the object: %v", err)
	large := configMap("x", nil)
	large.Data["k"] = strings.Repeat("x", 2<<20)
	_, err = f.core.CoreV1().ConfigMaps("a").Create(t.Context(), large, metav1.CreateOptions{})
	assert.ErrorContains(t, err, "etcdserver: request is too large")
	large.Data["k"] = strings.Repeat("x", 4<<20)
	_, err = f.core.CoreV1().ConfigMaps("a").Create(t.Context(), large, metav1.CreateOptions{})
	assert.True(t, apierrors.IsRequestEntityTooLargeError(err), "%v", err)
}

func TestServer_OwnerDeleted_TakesItsDependents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gvr := schema.GroupVersionResource{Group: "pingcap.com", Version: "v1alpha1", Resource: "tidbclusters"}
	api := f.dynamic.Resource(gvr).Namespace("a")
	owner, err := api.Create(t.Context(), kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: cluster.Name{Namespace: "a", Name: "o"}}), metav1.CreateOptions{})
	require.NoError(t, err)
	for _, name := range []string{"orphaned", "owned"} {
		child := configMap(name, nil)
		child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pingcap.com/v1alpha1", Kind: "TidbCluster", Name: "o", UID: owner.GetUID()}}
		if name == "orphaned" {
			child.OwnerReferences[0].UID = "another"
		}
		_, err := f.core.CoreV1().ConfigMaps("a").Create(t.Context(), child, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	require.NoError(t, api.Delete(t.Context(), "o", metav1.DeleteOptions{}))
	assert.Nil(t, f.server.Get("configmaps", "a", "owned"))
	assert.NotNil(t, f.server.Get("configmaps", "a", "orphaned"))
	require.NoError(t, f.core.CoreV1().Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}))
	assert.Nil(t, f.server.Get("configmaps", "a", "orphaned"))
}

func TestServer_Discovery_ListsWhatIsServed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := discovery.NewDiscoveryClient(f.core.CoreV1().RESTClient())
	_, lists, err := client.ServerGroupsAndResources()
	require.NoError(t, err)
	kinds := map[string]bool{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			kinds[l.GroupVersion+"/"+r.Name] = true
		}
	}
	for _, want := range []string{"v1/pods", "v1/pods/status", "apps/v1/statefulsets", "batch/v1/jobs", "pingcap.com/v1alpha1/tidbclusters"} {
		assert.True(t, kinds[want], want)
	}
	version, err := client.ServerVersion()
	require.NoError(t, err)
	assert.Equal(t, "1", version.Major)
	response, err := f.http.Get(f.server.URL() + "/healthz")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, "ok", string(body))
}

func TestServer_Deny_RefusesCallsAndReviews(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.Deny("list", "*")
	_, err := f.core.CoreV1().Pods("a").List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err))
	review := func(verb string) bool {
		answer, err := f.core.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authv1.SelfSubjectAccessReview{
			Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authv1.ResourceAttributes{Verb: verb, Resource: "pods"}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		return answer.Status.Allowed
	}
	assert.False(t, review("list"))
	assert.True(t, review("get"))
}

func TestServer_Faults_StrikeInEachPosition(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	api := f.core.CoreV1().ConfigMaps("a")
	add := func(r fault.Rule) { require.NoError(t, f.faults.Add(r)) }

	add(fault.Rule{Point: "kube.create.configmaps", Position: fault.Before, Code: "ServiceUnavailable"})
	_, err := api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	assert.True(t, apierrors.IsServiceUnavailable(err))
	assert.Nil(t, f.server.Get("configmaps", "a", "x"))

	add(fault.Rule{Point: "kube.create.configmaps", Position: fault.After})
	_, err = api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	require.Error(t, err)
	assert.Equal(t, metav1.StatusReasonUnknown, apierrors.ReasonForError(err))
	assert.NotNil(t, f.server.Get("configmaps", "a", "x"), "done, but the answer is lost")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	add(fault.Rule{Point: "kube.delete.configmaps", Position: fault.Stall, Do: cancel}) // and not before the server has the call
	require.ErrorIs(t, api.Delete(ctx, "x", metav1.DeleteOptions{}), context.Canceled)
	assert.NotNil(t, f.server.Get("configmaps", "a", "x"))

	add(fault.Rule{Point: "kube.delete.configmaps", Position: fault.Slow, Delay: 20 * time.Millisecond})
	began := time.Now()
	require.NoError(t, api.Delete(t.Context(), "x", metav1.DeleteOptions{}))
	assert.GreaterOrEqual(t, time.Since(began), 20*time.Millisecond)
	assert.Empty(t, f.faults.Unreached())
}

func TestServer_UnknownPath_HasNoStatusBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	response, err := f.http.Get(f.server.URL() + "/apis/none/v1/things/x")
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, http.StatusNotFound, response.StatusCode)
	assert.False(t, json.Valid(body))
}
