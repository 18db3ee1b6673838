package tests

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// granted are the calls, as the stand-in names them, that a manifest's ClusterRole allows.
func granted(t *testing.T, manifest string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(manifest)
	require.NoError(t, err)
	out := map[string]bool{}
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var role rbacv1.ClusterRole
		if !bytes.Contains(doc, []byte("kind: ClusterRole\n")) || bytes.Contains(doc, []byte("roleRef:")) {
			continue
		}
		require.NoError(t, yaml.UnmarshalStrict(doc, &role))
		for _, r := range role.Rules {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out["kube."+verb+"."+resource] = true
				}
			}
		}
	}
	require.NotEmpty(t, out)
	return out
}

// The role for backups alone is what all commands but restore, resolve and gc call, no less and no more.
func TestRoleForBackups_IsWhatIsCalled(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Faults: faults})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	newer := cluster.Name{Namespace: prod.Namespace, Name: "newer"}
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{
		Name: newer, TiKV: 1, Version: "v8.5.0", SizeGiB: 10, RaftLogVolume: true,
	}) {
		require.NoError(t, p.bed.Objects.Put(o))
	}
	_, err = p.bed.AwaitCluster(t.Context(), newer)
	require.NoError(t, err)
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	resources := []string{"tidbclusters", "pods", "persistentvolumeclaims", "persistentvolumes", "nodes", "events", "secrets", "configmaps", "namespaces"}
	resources = append(append(resources, "clusters", "tikvs"), operator2.Groups()...)
	before := map[string]int{}
	for _, verb := range verbs {
		for _, resource := range resources {
			before["kube."+verb+"."+resource] = faults.Calls("kube." + verb + "." + resource)
		}
	}
	for _, args := range [][]string{
		{"backup", newer.String()}, {"hold", "status", newer.String()}, {"release", newer.String(), "--yes"},
		{"backup", prod.String(), "--name", string(firstBackup)}, {"hold", "status", prod.String()}, {"release", prod.String(), "--yes"},
		{"list"}, {"describe", string(firstBackup)}, {"prune", "--keep-last", "1", "--yes"}, {"delete", string(firstBackup), "--yes", "--last"},
	} {
		e := p.run(t, append(args, "--storage", whole)...)
		require.Equal(t, cli.ExitDone, e.code, "%v: %s", args, e.stderr)
	}
	role := granted(t, "../manifests/rbac-backup.yaml")
	for call, calls := range before {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			if role[call] {
				assert.Greater(t, faults.Calls(call), calls, "it is granted and never called")
			} else {
				assert.Equal(t, calls, faults.Calls(call), "it is called and not granted")
			}
		})
	}
}
