package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// The Job may run in a namespace of its own: the role is then made where TiDB is, and bound to the account of the other
// namespace. It may nothing in any other one.
func TestRoles_JobInAnotherNamespace_AreEnoughForARestore(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	jobs := s.namespace + "-jobs"
	_, err := s.core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: jobs}}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, o := range rendered(t)["kustomize/base"] {
		o = o.DeepCopy()
		switch o.GetKind() {
		case "ServiceAccount":
			o.SetNamespace(jobs)
		case "Role", "RoleBinding":
			o.SetNamespace(s.namespace)
		case "ClusterRole", "ClusterRoleBinding":
			o.SetName(o.GetName() + "-" + jobs)
		default:
			continue
		}
		if o.GetKind() == "ClusterRoleBinding" {
			require.NoError(t, unstructured.SetNestedField(o.Object, o.GetName(), "roleRef", "name"))
		}
		if subjects, found, _ := unstructured.NestedSlice(o.Object, "subjects"); found {
			for _, of := range subjects {
				of.(map[string]any)["namespace"] = jobs
			}
			require.NoError(t, unstructured.SetNestedSlice(o.Object, subjects, "subjects"))
		}
		_, err := s.resource(t, o).Create(t.Context(), o, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
		require.NoError(t, err, "%s %s", o.GetKind(), o.GetName())
	}
	client := s.account(t, jobs, "tisnap")
	eventually(t, "the authorizer knows the role of the other namespace", func() bool { return client.Allowed(t.Context(), s.namespace, nil) == nil })
	s.round(t, client)
	err = client.Allowed(t.Context(), jobs, nil)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
}
