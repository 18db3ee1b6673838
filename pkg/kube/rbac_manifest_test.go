package kube

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The role that the documentation has users make grants what a run uses, and nothing else.
func TestManifest_GrantsWhatIsUsed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../manifests/rbac.yaml")
	require.NoError(t, err)
	var role rbacv1.ClusterRole
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		if bytes.Contains(doc, []byte("kind: ClusterRole\nmetadata")) {
			require.NoError(t, yaml.UnmarshalStrict(doc, &role))
		}
	}
	var granted []permission
	for _, r := range role.Rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					granted = append(granted, permission{verb, group, resource})
				}
			}
		}
	}
	// Wanted for reasons, for checks and for gc, not needed: an older role still works.
	used := append(permissions(), permission{"list", "", "events"}, permission{"get", "", "secrets"}, permission{"get", "", "pods/log"}, permission{"get", "", "namespaces"})
	assert.ElementsMatch(t, used, granted)
}
