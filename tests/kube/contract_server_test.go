package kube_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/retry"
)

func versionsAndUIDsAreKept(t *testing.T, s system) {
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	made, err := api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	assert.NotEmpty(t, made.UID)
	assert.False(t, made.CreationTimestamp.IsZero())
	assert.NotEmpty(t, made.ManagedFields)
	_, err = api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	assert.True(t, apierrors.IsAlreadyExists(err), "%v", err)

	changed := made.DeepCopy()
	changed.Data["k"] = "w"
	second, err := api.Update(t.Context(), changed, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.NotEqual(t, made.ResourceVersion, second.ResourceVersion)
	same, err := api.Update(t.Context(), second, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Equal(t, second.ResourceVersion, same.ResourceVersion, "a write that changes nothing makes no version")
	_, err = api.Update(t.Context(), made, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsConflict(err), "an old version: %v", err)
}

func patchesAreApplied(t *testing.T, s system) {
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	_, err := api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	for kind, body := range map[types.PatchType]string{
		types.MergePatchType:          `{"data":{"merge":"1"}}`,
		types.StrategicMergePatchType: `{"data":{"strategic":"1"}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/data/json","value":"1"}]`,
	} {
		_, err := api.Patch(t.Context(), "x", kind, []byte(body), metav1.PatchOptions{})
		require.NoError(t, err, kind)
	}
	got, err := api.Get(t.Context(), "x", metav1.GetOptions{})
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"k": "v", "merge": "1", "strategic": "1", "json": "1"}, got.Data)
	_, err = api.Patch(t.Context(), "x", types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"}}`), metav1.PatchOptions{})
	assert.True(t, apierrors.IsConflict(err), "%v", err)
	_, err = api.Patch(t.Context(), "none", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	assert.True(t, apierrors.IsNotFound(err), "%v", err)
}

func invalidIsRefused(t *testing.T, s system) {
	_, err := s.core.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	_, err = api.Create(t.Context(), configMap("Bad_Name", nil), metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	_, err = api.Create(t.Context(), configMap("x", map[string]string{"run": "a/b:c"}), metav1.CreateOptions{})
	assert.True(t, apierrors.IsInvalid(err), "%v", err)
	elsewhere := configMap("x", nil)
	elsewhere.Namespace = "default"
	_, err = api.Create(t.Context(), elsewhere, metav1.CreateOptions{})
	assert.True(t, apierrors.IsBadRequest(err), "namespace of the object: %v", err)
	large := configMap("x", nil)
	large.Data["k"] = strings.Repeat("x", 4<<20)
	_, err = api.Create(t.Context(), large, metav1.CreateOptions{})
	assert.True(t, apierrors.IsRequestEntityTooLargeError(err), "%v", err)
}

func statusIsApart(t *testing.T, s system) {
	api := s.core.CoreV1().Pods(s.namespace)
	eventually(t, "pods can be made", func() bool { // the namespace's service account comes a moment after it
		pod, err := api.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"tisnap.io/test": "none"}, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}, metav1.CreateOptions{})
		if err != nil {
			require.True(t, apierrors.IsForbidden(err), "%v", err)
			return false
		}
		require.Equal(t, corev1.PodPending, pod.Status.Phase)
		return true
	})
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		pod, err := api.Get(t.Context(), "p", metav1.GetOptions{})
		require.NoError(t, err)
		pod.Status.Phase = corev1.PodRunning
		pod.Spec.NodeName = "n"
		_, err = api.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		return err
	}))
	pod, err := api.Get(t.Context(), "p", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	require.Empty(t, pod.Spec.NodeName)
}

func watchListEndsWithABookmark(t *testing.T, s system) {
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	_, err := api.Create(t.Context(), configMap("x", map[string]string{"in": "yes"}), metav1.CreateOptions{})
	require.NoError(t, err)
	yes := true
	stream, err := api.Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, LabelSelector: "in=yes",
	})
	require.NoError(t, err)
	defer stream.Stop()
	next := func() watch.Event {
		select {
		case e := <-stream.ResultChan():
			return e
		case <-time.After(patience):
			require.Fail(t, "no event")
			return watch.Event{}
		}
	}
	require.Equal(t, watch.Added, next().Type)
	bookmark := next()
	require.Equal(t, watch.Bookmark, bookmark.Type)
	object, ok := bookmark.Object.(*corev1.ConfigMap)
	require.True(t, ok)
	require.Equal(t, "true", object.Annotations[metav1.InitialEventsAnnotationKey])
}

func discoveryListsWhatIsServed(t *testing.T, s system) {
	client := discovery.NewDiscoveryClient(s.core.CoreV1().RESTClient())
	var kinds []string
	eventually(t, "a custom resource is listed", func() bool { // it is served a moment before
		_, lists, err := client.ServerGroupsAndResources()
		require.NoError(t, err)
		kinds = nil
		for _, l := range lists {
			for _, r := range l.APIResources {
				kinds = append(kinds, l.GroupVersion+"/"+r.Name)
			}
		}
		return slices.Contains(kinds, "pingcap.com/v1alpha1/tidbclusters")
	})
	require.Subset(t, kinds, []string{"v1/pods", "v1/pods/status", "apps/v1/statefulsets", "batch/v1/jobs"})
	version, err := client.ServerVersion()
	require.NoError(t, err)
	assert.Equal(t, "1", version.Major)
}
