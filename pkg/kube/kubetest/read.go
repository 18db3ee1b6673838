package kubetest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// filter is the label and field selector of a call.
type filter struct {
	labels labels.Selector
	fields fields.Selector
}

func parseFilter(r *http.Request) (filter, error) {
	query := r.URL.Query()
	byLabel, err := labels.Parse(query.Get("labelSelector"))
	if err != nil {
		return filter{}, apierrors.NewBadRequest("unable to parse labelSelector: " + err.Error())
	}
	byField, err := fields.ParseSelector(query.Get("fieldSelector"))
	if err != nil {
		return filter{}, apierrors.NewBadRequest("unable to parse fieldSelector: " + err.Error())
	}
	for _, r := range byField.Requirements() {
		if !slices.ContainsFunc(selectable(), func(path []string) bool { return strings.Join(path, ".") == r.Field }) {
			return filter{}, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return filter{byLabel, byField}, nil
}

// selectable are the fields that the real server indexes for all objects, for pods and for events.
func selectable() [][]string {
	return [][]string{
		{"metadata", "name"},
		{"metadata", "namespace"},
		{"spec", "nodeName"},
		{"status", "phase"},
		{"type"},
		{"reason"},
		{"involvedObject", "name"},
		{"involvedObject", "namespace"},
		{"involvedObject", "kind"},
		{"involvedObject", "uid"},
	}
}

func (f filter) matches(o object) bool {
	m := meta(o)
	if !f.labels.Matches(labels.Set(m.GetLabels())) {
		return false
	}
	if f.fields.Empty() {
		return true
	}
	set := fields.Set{}
	for _, path := range selectable() {
		set[strings.Join(path, ".")], _, _ = unstructured.NestedString(o, path...)
	}
	return f.fields.Matches(set)
}

func (s *Server) read(c call) (any, error) {
	o, ok := s.store.get(c.resource.name, c.namespace, c.name)
	if ok {
		return o, nil
	}
	if c.resource.name == namespaces && !s.store.removed(c.name) { // namespaces need not be made first
		return object{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": object{"name": c.name, "uid": c.name + "-" + s.uid}, "status": object{"phase": "Active"},
		}, nil
	}
	return nil, apierrors.NewNotFound(c.resource.groupResource(), c.name)
}

func (s *Server) readList(c call) (any, error) {
	f, err := parseFilter(c.http)
	if err != nil {
		return nil, err
	}
	found, version := s.store.list(c.resource.name, c.namespace)
	items := []object{}
	for _, o := range found {
		if f.matches(o) {
			items = append(items, o)
		}
	}
	return object{
		"kind": c.resource.kind + "List", "apiVersion": c.resource.apiVersion(),
		"metadata": object{"resourceVersion": strconv.FormatInt(version, 10)},
		"items":    items,
	}, nil
}

// review answers a SelfSubjectAccessReview from the denied permissions.
func (s *Server) review(c call) (any, error) {
	o, err := decode(c.body)
	if err != nil {
		return nil, err
	}
	verb, _, _ := unstructured.NestedString(o, "spec", "resourceAttributes", "verb")
	name, _, _ := unstructured.NestedString(o, "spec", "resourceAttributes", "resource")
	if sub, _, _ := unstructured.NestedString(o, "spec", "resourceAttributes", "subresource"); sub != "" {
		name += "/" + sub
	}
	status := object{"allowed": s.allowed(verb, name)}
	if status["allowed"] == false {
		status["reason"] = "no RBAC policy matched"
	}
	o["status"] = status
	meta(o).SetCreationTimestamp(metav1.Time{})
	return o, nil
}
