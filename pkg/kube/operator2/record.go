package operator2

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// record returns the Cluster, its groups and its TiKV instances as a manifest keeps them. They name secrets and have
// none.
func record(all Objects) ([]json.RawMessage, error) {
	var out []json.RawMessage
	keep := func(o *unstructured.Unstructured) error {
		metadata := map[string]any{"name": o.GetName(), "namespace": o.GetNamespace(), "uid": string(o.GetUID())}
		if labels := o.GetLabels(); len(labels) > 0 {
			metadata["labels"] = labels
		}
		annotations := o.GetAnnotations()
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		if len(annotations) > 0 {
			metadata["annotations"] = annotations
		}
		raw, err := json.Marshal(map[string]any{
			"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": metadata, "spec": o.Object["spec"],
		})
		out = append(out, raw)
		return failure.Wrap(err, failure.Corrupt, "encode "+strings.ToLower(o.GetKind()), o.GetName())
	}
	if err := keep(all.Cluster); err != nil {
		return nil, err
	}
	for _, list := range [][]unstructured.Unstructured{all.Groups, all.TiKVs} {
		for i := range list {
			if err := keep(&list[i]); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
