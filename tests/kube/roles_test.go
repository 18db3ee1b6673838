package kube_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// documents are the objects of a file of manifests/.
func documents(t *testing.T, path string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var list []*unstructured.Unstructured
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict(doc, &o.Object))
		list = append(list, o)
	}
	return list
}

// clusterRole are the rules of the ClusterRole in a file of manifests/.
func clusterRole(t *testing.T, path string) []rbacv1.PolicyRule {
	t.Helper()
	for _, o := range documents(t, path) {
		if o.GetKind() != "ClusterRole" {
			continue
		}
		var role rbacv1.ClusterRole
		text, err := o.MarshalJSON()
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, &role))
		return role.Rules
	}
	require.Fail(t, "no ClusterRole", path)
	return nil
}
