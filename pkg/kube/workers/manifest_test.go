package workers_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/failure"
)

// granted are the verbs of the role in manifests/, by resource.
func granted(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/kustomize/overlays/archive-workers/workers.yaml")
	require.NoError(t, err)
	var role rbacv1.Role
	require.NoError(t, yaml.UnmarshalStrict(bytes.Split(text, []byte("\n---\n"))[0], &role))
	out := map[string][]string{}
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			out[resource] = rule.Verbs
		}
	}
	require.Len(t, out, 3)
	return out
}

// used makes a Job whose pods do not run yet, looks at it, and removes it.
func (l *lab) used(t *testing.T) error {
	t.Helper()
	made, err := l.jobs.Make(within(t), spec())
	if err != nil {
		return err
	}
	if _, err := l.jobs.State(within(t), made); err != nil {
		return err
	}
	return l.jobs.Remove(within(t), made)
}

// The role in manifests/ has what is used, and nothing else.
func TestManifest_GrantsWhatIsUsed(t *testing.T) {
	t.Parallel()
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
	l := newLab(t)
	role := granted(t)
	for resource, verbs := range role {
		for _, verb := range all {
			if !slices.Contains(verbs, verb) {
				l.server.Deny(verb, resource)
			}
		}
	}
	require.NoError(t, l.used(t))
	delete(role, "events") // without them a reason is missing, and nothing else
	for resource, verbs := range role {
		for _, verb := range verbs {
			l.server.Deny(verb, resource)
			err := l.used(t)
			require.Equal(t, failure.Denied, failure.KindOf(err), "%s %s: %v", verb, resource, err)
			l.server.Allow(verb, resource)
		}
	}
}
