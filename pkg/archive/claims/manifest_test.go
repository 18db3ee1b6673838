package claims_test

import (
	"bytes"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// granted are the rights that the roles in manifests/ give, such as "get pods".
func granted(t *testing.T) (rights []string) {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/kustomize/overlays/archive-claims/role.yaml")
	require.NoError(t, err)
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole // a Role has the same rules
		require.NoError(t, yaml.Unmarshal(doc, &role))
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					rights = append(rights, verb+" "+resource)
				}
			}
		}
	}
	return rights
}

// rightOf is what a request needs.
func rightOf(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	path = path[2:] // api/v1
	if strings.HasPrefix(r.URL.Path, "/apis/") {
		path = path[1:]
	}
	if path[0] == "namespaces" && len(path) > 2 {
		path = path[2:]
	}
	verb := map[string]string{
		http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch",
		http.MethodDelete: "delete",
	}[r.Method]
	if verb == "get" && len(path) == 1 {
		verb = "list"
	}
	return verb + " " + path[0]
}

// The roles in manifests/ give the rights that are used, and no others: to choose a class, and to fill a volume and
// remove it again, beside one that fails.
func TestManifest_GrantsWhatIsUsed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	rights := map[string]bool{}
	l.asked = func(r *http.Request) { rights[rightOf(r)] = true }
	require.NoError(t, l.server.AddStorageClassOf("files", "files.csi"))
	_, err := l.filler.Claims.Class(within(t), "files")
	require.NoError(t, err)
	_, _ = l.filler.Claims.Class(within(t), "") // there is no default one
	l.filler.Stand = l.works(t)
	items, err := l.filler.Fill(within(t), archive())
	require.NoError(t, err)
	l.before["DELETE persistentvolumeclaims"] = func() { // what the CSI driver does afterwards
		require.NoError(t, l.server.Remove(l.server.Get("persistentvolumes", "", items[0].Bound.Name)))
	}
	_, err = l.filler.Remove(within(t))
	require.NoError(t, err)
	rights["list nodes"] = true // by a restore of a cluster
	require.ElementsMatch(t, granted(t), slices.Collect(maps.Keys(rights)))
}
