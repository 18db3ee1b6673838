// Package manifests holds the objects that users apply against Kubernetes' own types, against each other, and against
// the program.
package manifests

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// objects maps kind/namespace/name to the object.
type objects map[string]*unstructured.Unstructured

func (o objects) add(t *testing.T, doc []byte) {
	t.Helper()
	for _, part := range bytes.Split(doc, []byte("\n---\n")) {
		var u map[string]any
		require.NoError(t, yaml.UnmarshalStrict(part, &u), "%s", part)
		if len(u) == 0 {
			continue
		}
		raw, err := json.Marshal(u)
		require.NoError(t, err)
		made := &unstructured.Unstructured{}
		require.NoError(t, made.UnmarshalJSON(raw))
		key := made.GetKind() + " " + made.GetNamespace() + "/" + made.GetName()
		require.NotContains(t, o, key)
		o[key] = made
	}
}

// kustomized builds a folder of manifests/kustomize as kubectl apply -k does.
func kustomized(t *testing.T, folder string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join("../../manifests/kustomize", folder))
	require.NoError(t, err)
	doc, err := built.AsYaml()
	require.NoError(t, err)
	out := objects{}
	out.add(t, doc)
	return out
}

// helmed renders the chart as helm install -n tidb does, its values checked by its schema.
func helmed(t *testing.T, set map[string]any) (objects, error) {
	t.Helper()
	chart, err := loader.Load("../../manifests/helm/tisnap")
	require.NoError(t, err)
	require.NoError(t, chart.Validate())
	values, err := util.ToRenderValues(chart, set, common.ReleaseOptions{Name: "tisnap", Namespace: "tidb", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, values)
	require.NoError(t, err)
	out := objects{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			out.add(t, []byte(text))
		}
	}
	return out, nil
}
