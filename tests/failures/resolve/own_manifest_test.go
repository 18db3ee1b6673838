package resolve_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/testbed/round"
)

// ownManifest does what a user does who restores into a cluster of their own: the target is printed, with a patch, and what
// was printed makes the same target; what could not open the data is refused with all its fields at once. Nothing of this
// changes anything. It returns the flags of a restore that takes the manifest, with another patch.
func ownManifest(t *testing.T, p *place, to cluster.Name, tisnap func(input string, args ...string) (stdout, stderr string, code int)) []string {
	t.Helper()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	before := butProof(p.Bed().MutatingCalls())
	restore := func(input string, more ...string) (stdout, stderr string, code int) {
		return tisnap(input, append([]string{"restore", round.BackupID, "--to", to.String(), "--print-manifest"}, more...)...)
	}
	printed, stderr, code := restore("", "--patch", file("merge.yaml", "metadata: {labels: {team: storage}}\n"))
	require.Zero(t, code, stderr)
	again, stderr, code := restore(printed, "--from-manifest", "-")
	require.Zero(t, code, stderr)
	require.Equal(t, printed, again)

	wrong := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(printed), &wrong.Object))
	set := func(value any, path ...string) {
		require.NoError(t, unstructured.SetNestedField(wrong.Object, value, path...))
	}
	set("v7.1.0", "spec", "version")
	set(int64(7), "spec", "tikv", "replicas")
	set("1Gi", "spec", "tikv", "requests", "storage")
	set("[storage]\napi-version = 2\n", "spec", "tikv", "config")
	text, err := yaml.Marshal(wrong.Object)
	require.NoError(t, err)
	_, stderr, code = restore("", "--from-manifest", file("wrong.yaml", string(text)))
	require.Equal(t, int(exitUsage), code, stderr)
	for _, field := range []string{"TiKV's version", "spec.tikv.replicas", "spec.tikv.requests.storage", "spec.tikv.config storage.api-version"} {
		require.Contains(t, stderr, field)
	}
	require.Equal(t, before, butProof(p.Bed().MutatingCalls()))
	return []string{
		"--from-manifest", file("own.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: beside}\n---\n"+printed),
		"--patch", file("patch.json", `[{"op": "add", "path": "/metadata/annotations/tried", "value": "yes"}]`),
	}
}

// butProof leaves out the proof that the storage refuses conditional writes: a dry run makes it, too, and deletes what it wrote.
func butProof(calls []string) (out []string) {
	for _, call := range calls {
		if !strings.Contains(call, "/"+manifest.ProbesPrefix) {
			out = append(out, call)
		}
	}
	return out
}
