package kube

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// The role that the documentation has users make grants what a run uses, and nothing else.
func TestManifest_GrantsWhatIsUsed(t *testing.T) {
	t.Parallel()
	granted := grantedBy(t, "../../manifests/rbac.yaml", "ClusterRole")
	// Wanted for reasons, for checks and for gc, not needed: an older role still works.
	used := append(allPermissions(), permission{"list", "", "events"}, permission{"get", "", "pods/log"}, permission{"get", "", "namespaces"})
	assert.ElementsMatch(t, used, granted)
}

// A role for backups alone is checked for what it grants.
func TestManifest_Backup(t *testing.T) {
	t.Parallel()
	assert.ElementsMatch(t, backupPermissions(), grantedBy(t, "../../manifests/rbac-backup.yaml", "ClusterRole"))
}

// What a drill needs besides a restore is a role of its own.
func TestManifest_Drill(t *testing.T) {
	t.Parallel()
	assert.ElementsMatch(t, drillPermissions(), grantedBy(t, "../../manifests/rbac-drill.yaml", "ClusterRole"))
}

// What is checked for commands that make Jobs is what their roles grant.
func TestManifest_Jobs(t *testing.T) {
	t.Parallel()
	const overlays = "../../manifests/kustomize/overlays/"
	claims := overlays + "archive-claims/role.yaml"
	for of, granted := range map[JobsPurpose][]permission{
		JobsArchive: grantedBy(t, overlays+"archive-workers/workers.yaml", "Role"),
		JobsFill:    slices.Concat(grantedBy(t, claims, "Role"), grantedBy(t, claims, "ClusterRole")),
	} {
		var used []permission
		for _, p := range of.permissions() {
			assert.NotEmpty(t, p.use)
			used = append(used, p.permission)
		}
		assert.ElementsMatch(t, used, granted)
	}
}

// From outside the cluster, one verb more is used, in the cluster's namespace.
func TestManifest_PortForwards(t *testing.T) {
	t.Parallel()
	assert.Equal(t, []permission{forwardPermission()}, grantedBy(t, "../../manifests/rbac-port-forward.yaml", "Role"))
}

// Of clusters with TLS, the secrets of clients are read, by name, and no others.
func TestManifest_TLS(t *testing.T) {
	t.Parallel()
	const file = "../../manifests/rbac-tls.yaml"
	assert.Equal(t, []permission{{"get", "", "secrets"}}, grantedBy(t, file, "Role"))
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "resourceNames: ["+operator1.ClientSecret("prod")+", "+operator1.ClientSecret("copy")+"]\n")
}

// grantedBy reads the rules of the role in a file.
func grantedBy(t *testing.T, file, kind string) []permission {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var role rbacv1.ClusterRole // a Role has the same rules
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		if bytes.Contains(doc, []byte("kind: "+kind+"\nmetadata")) {
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
	return granted
}
