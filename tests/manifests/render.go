// Package manifests holds the objects that users apply against Kubernetes' own types, against each other, and against
// the program.
package manifests

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../../manifests"

// Objects maps kind/namespace/name to the object.
type Objects map[string]*unstructured.Unstructured

func (o Objects) add(doc []byte) error {
	for _, part := range bytes.Split(doc, []byte("\n---\n")) {
		var u map[string]any
		if err := yaml.UnmarshalStrict(part, &u); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
		if len(u) == 0 {
			continue
		}
		raw, err := json.Marshal(u)
		if err != nil {
			return err
		}
		made := &unstructured.Unstructured{}
		if err := made.UnmarshalJSON(raw); err != nil {
			return err
		}
		key := made.GetKind() + " " + made.GetNamespace() + "/" + made.GetName()
		if o[key] != nil {
			return fmt.Errorf("%s is there twice", key)
		}
		o[key] = made
	}
	return nil
}

// Folders are those of manifests/kustomize that kubectl apply -k takes.
func Folders() []string {
	return []string{"archive", "base", "backup", "drill", "gc", "nightly", "restore", "overlays/archive-claims", "overlays/archive-kms", "overlays/archive-workers", "overlays/drill", "overlays/irsa", "overlays/pod-identity", "overlays/port-forward"}
}

// Kustomize builds a folder of manifests/kustomize as kubectl apply -k does.
func Kustomize(folder string) (Objects, error) {
	return built(filepath.Join(root, "kustomize", folder))
}

func built(path string) (Objects, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), path)
	if err != nil {
		return nil, err
	}
	doc, err := built.AsYaml()
	if err != nil {
		return nil, err
	}
	out := Objects{}
	return out, out.add(doc)
}

// Helm renders the chart as helm install -n tidb does, its values checked by its schema.
func Helm(set map[string]any) (Objects, error) {
	chart, err := loader.Load(filepath.Join(root, "helm/tisnap"))
	if err != nil {
		return nil, err
	}
	if err := chart.Validate(); err != nil {
		return nil, err
	}
	values, err := util.ToRenderValues(chart, set, common.ReleaseOptions{Name: "tisnap", Namespace: "tidb", IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		return nil, err
	}
	out := Objects{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text) != "" {
			if err := out.add([]byte(text)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return out, nil
}

// Everything are the chart's values with which it renders all that it has.
func Everything() map[string]any {
	on := map[string]any{"enabled": true}
	return map[string]any{
		"backup": on, "restore": on, "nightly": on, "gc": on, "drill": on, "archive": on, "archiveClaims": on, "portForward": on, "alerts": on,
		"exporter": map[string]any{"enabled": true, "serviceMonitor": on},
	}
}

// Program builds tisnap into a folder and returns its path. It is built in its own module.
func Program(ctx context.Context, folder string) (string, error) {
	program := filepath.Join(folder, "tisnap")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/tisnap")
	build.Dir = filepath.Dir(root)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return program, nil
}

// Generate returns the objects that a program's tisnap generate prints for each list of arguments.
func Generate(ctx context.Context, program string, calls ...[]string) (Objects, error) {
	out := Objects{}
	for _, args := range calls {
		cmd := exec.CommandContext(ctx, program, append([]string{"generate"}, args...)...)
		text, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%v: %w", args, err)
		}
		if err := out.add(bytes.TrimPrefix(text, []byte("---\n"))); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Nightly are the calls that print what kustomize/nightly builds.
func Nightly() [][]string {
	return [][]string{
		{"rbac", "tidb"},
		{"cronjob", "tidb/prod", "--image=REGISTRY/tisnap:v1", "--storage=s3://backups/prod", "--region=us-west-2"},
	}
}
