package kube_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func configMap(name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"k": "v"}}
}

func deletionIsOfThatObject(t *testing.T, s system) {
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	made, err := api.Create(t.Context(), configMap("x", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	other, stale := types.UID("other"), made.ResourceVersion
	requireReason(t, metav1.StatusReasonConflict, api.Delete(t.Context(), "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}}))
	made.Data["k"] = "w"
	made, err = api.Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	requireReason(t, metav1.StatusReasonConflict, api.Delete(t.Context(), "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &stale}}))
	require.NoError(t, api.Delete(t.Context(), "x", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
	require.NoError(t, api.Delete(t.Context(), "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}))
	requireReason(t, metav1.StatusReasonNotFound, api.Delete(t.Context(), "x", metav1.DeleteOptions{}))
}

func watchShowsChanges(t *testing.T, s system) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	list, err := api.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	stream, err := api.Watch(ctx, metav1.ListOptions{LabelSelector: "in=yes", ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer stream.Stop()
	expect := func(action watch.EventType, name string) {
		t.Helper()
		select {
		case e := <-stream.ResultChan():
			require.Equal(t, action, e.Type)
			require.Equal(t, name, e.Object.(*corev1.ConfigMap).Name)
		case <-ctx.Done():
			require.Fail(t, "no event")
		}
	}
	_, err = api.Create(ctx, configMap("other", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	made, err := api.Create(ctx, configMap("x", map[string]string{"in": "yes"}), metav1.CreateOptions{})
	require.NoError(t, err)
	expect(watch.Added, "x")
	made.Data["k"] = "w"
	made, err = api.Update(ctx, made, metav1.UpdateOptions{})
	require.NoError(t, err)
	expect(watch.Modified, "x")
	made.Labels = nil // it is no longer selected
	_, err = api.Update(ctx, made, metav1.UpdateOptions{})
	require.NoError(t, err)
	expect(watch.Deleted, "x")
}

func selectorsChoose(t *testing.T, s system) {
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	for i := range 4 {
		_, err := api.Create(t.Context(), configMap(fmt.Sprintf("x%d", i), map[string]string{"n": fmt.Sprint(i), "in": "yes"}), metav1.CreateOptions{})
		require.NoError(t, err)
	}
	for options, want := range map[metav1.ListOptions]int{
		{LabelSelector: "in=yes"}:                                4,
		{LabelSelector: "in=yes,n in (1,2)"}:                     2,
		{LabelSelector: "n=3,in!=yes"}:                           0,
		{LabelSelector: "in", FieldSelector: "metadata.name=x2"}: 1,
	} {
		list, err := api.List(t.Context(), options)
		require.NoError(t, err)
		require.Len(t, list.Items, want, "%+v", options)
	}
	events := s.core.CoreV1().Events(s.namespace)
	for _, kind := range []string{corev1.EventTypeNormal, corev1.EventTypeWarning} {
		_, err := events.Create(t.Context(), &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: strings.ToLower(kind)},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: s.namespace}, Type: kind, Reason: "R", Message: "m",
			LastTimestamp: metav1.NewTime(time.Now()),
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	list, err := events.List(t.Context(), metav1.ListOptions{FieldSelector: "type=Warning"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
}

func dependentsGo(t *testing.T, s system) {
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("owner")))
	owner, err := s.clusters().Get(t.Context(), "owner", metav1.GetOptions{})
	require.NoError(t, err)
	api := s.core.CoreV1().ConfigMaps(s.namespace)
	child := configMap("owned", nil)
	child.OwnerReferences = []metav1.OwnerReference{{APIVersion: "pingcap.com/v1alpha1", Kind: "TidbCluster", Name: "owner", UID: owner.GetUID()}}
	_, err = api.Create(t.Context(), child, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = api.Create(t.Context(), configMap("free", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.client.DeleteCluster(t.Context(), s.name("owner"), s.run, false))
	eventually(t, "the dependent is collected", func() bool {
		_, err := api.Get(t.Context(), "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	_, err = api.Get(t.Context(), "free", metav1.GetOptions{})
	require.NoError(t, err)
}

// exchange is one request, its body in YAML, and the answer that a server has to give to it: code and reason, which are
// what the adapter goes by. NS stands for the namespace in path and body.
type exchange struct {
	name, method, path, body, kind string
	code                           int
	reason                         metav1.StatusReason
}

// send returns the code and, if the answer is a Status, its reason.
func (s system) send(t *testing.T, e exchange) (int, metav1.StatusReason) {
	t.Helper()
	fill := strings.NewReplacer("NS", s.namespace).Replace
	body := []byte(fill(e.body))
	if e.kind == "" {
		e.kind = "application/json"
		var err error
		body, err = yaml.YAMLToJSON(body)
		require.NoError(t, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), e.method, s.config.Host+fill(e.path), strings.NewReader(string(body)))
	require.NoError(t, err)
	request.Header.Set("Content-Type", e.kind)
	client, err := rest.HTTPClientFor(s.config)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	answer, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	var status metav1.Status
	if yaml.Unmarshal(text, &status) != nil || status.Kind != "Status" {
		return answer.StatusCode, ""
	}
	return answer.StatusCode, status.Reason
}

func answersToRequests(t *testing.T, s system) {
	for _, e := range exchanges() { // in their order: some lean on those before
		code, reason := s.send(t, e)
		if code != e.code || reason != e.reason {
			t.Errorf("%s: %d %q, not %d %q", e.name, code, reason, e.code, e.reason)
		}
	}
}
