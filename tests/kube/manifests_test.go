package kube_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// renderedFile names the variable with what tests/manifests/render has written.
const renderedFile = "TISNAP_TEST_RENDERED"

// rendered are the objects of the kustomize folders and of the chart, by where they are from.
func rendered(t *testing.T) map[string][]*unstructured.Unstructured {
	t.Helper()
	file, err := os.Open(os.Getenv(renderedFile))
	require.NoError(t, err, "make test-kube writes it and names it in "+renderedFile)
	defer func() { _ = file.Close() }()
	all := map[string][]*unstructured.Unstructured{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			From   string         `json:"from"`
			Object map[string]any `json:"object"`
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
		all[line.From] = append(all[line.From], &unstructured.Unstructured{Object: line.Object})
	}
	require.NoError(t, lines.Err())
	return all
}

// resource is where an object of any kind is written to.
func (s system) resource(t *testing.T, o *unstructured.Unstructured) dynamic.ResourceInterface {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	require.NoError(t, err)
	groups, err := restmapper.GetAPIGroupResources(client)
	require.NoError(t, err)
	kind := o.GroupVersionKind()
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	require.NoError(t, err, "%s is not served", kind)
	if o.GetNamespace() == "" {
		return s.dynamic.Resource(mapping.Resource)
	}
	return s.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
}

// warned keeps the warnings of the API server.
type warned struct {
	mu   sync.Mutex
	text []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warned) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// restricted is a system whose namespace tidb takes no pod that does not fit Pod Security's level restricted.
func restricted(t *testing.T) (system, *warned) {
	t.Helper()
	s := openReal(t)
	warnings := &warned{}
	s.config = rest.CopyConfig(s.config)
	s.config.WarningHandler = warnings
	var err error
	s.core, err = kubernetes.NewForConfig(s.config)
	require.NoError(t, err)
	s.dynamic, err = dynamic.NewForConfig(s.config)
	require.NoError(t, err)
	s.namespace = "tidb"
	_, err = s.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted",
	}}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return s, warnings
}

// Everything in manifests/ is taken by the API server with all its admission, and the pods that come of it are, too.
func TestManifests_AreTakenByTheAPIServer_InARestrictedNamespace(t *testing.T) {
	t.Parallel()
	needsPlane(t)
	s, warnings := restricted(t)
	all := rendered(t)
	for _, file := range []string{"rbac.yaml", "rbac-backup.yaml", "rbac-drill.yaml", "rbac-tls.yaml", "rbac-port-forward.yaml", exporter, rules} {
		all[file] = documents(t, filepath.Join("../../manifests", file))
	}
	account := func(o *unstructured.Unstructured) bool { return o.GetKind() == "ServiceAccount" }
	for from, objects := range all {
		for _, o := range objects {
			if account(o) { // before any pod: one without its account is refused
				_, err := s.resource(t, o).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
				assert.True(t, err == nil || apierrors.IsAlreadyExists(err), "%s: %s: %v", from, o.GetName(), err)
			}
		}
	}
	pods := 0
	for from, objects := range all {
		for _, o := range objects {
			if account(o) {
				continue
			}
			options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
			_, err := s.resource(t, o).Create(t.Context(), o, options)
			assert.NoError(t, err, "%s: %s %s", from, o.GetKind(), o.GetName())
			if template, found := template(t, o); found {
				pods++
				_, err := s.try(t, template)
				assert.NoError(t, err, "the pod of %s: %s %s", from, o.GetKind(), o.GetName())
			}
		}
	}
	assert.GreaterOrEqual(t, pods, 6)
	assert.Empty(t, warnings.text)

	// What does not fit is refused here: the level is in force.
	for _, o := range all["kustomize/backup"] {
		if template, found := template(t, o); found {
			template.Spec.Containers[0].SecurityContext = nil
			_, err := s.try(t, template)
			require.ErrorContains(t, err, "violates PodSecurity")
		}
	}
}

// try makes a pod of a template, dry.
func (s system) try(t *testing.T, template corev1.PodTemplateSpec) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	pod.GenerateName = "try-"
	return s.core.CoreV1().Pods(s.namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// template is that of the pods that an object makes.
func template(t *testing.T, o *unstructured.Unstructured) (made corev1.PodTemplateSpec, found bool) {
	t.Helper()
	path := map[string][]string{
		"Job": {"spec", "template"}, "Deployment": {"spec", "template"}, "CronJob": {"spec", "jobTemplate", "spec", "template"},
	}[o.GetKind()]
	if path == nil {
		return made, false
	}
	content, _, err := unstructured.NestedMap(o.Object, path...)
	require.NoError(t, err)
	text, err := json.Marshal(content)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &made))
	return made, true
}
