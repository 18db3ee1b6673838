package kube

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"

	"github.com/tisnap/tisnap/pkg/failure"
)

// OfClass returns an object with this StorageClass in place of each that it names, and a claim with it in any case.
func OfClass(object json.RawMessage, class string) (json.RawMessage, error) {
	const op = "set storage class"
	var o map[string]any
	if err := utiljson.Unmarshal(object, &o); err != nil { // whole numbers stay as they are
		return nil, failure.Wrap(err, failure.Corrupt, op, class)
	}
	setClass(o, class)
	if spec, is := o["spec"].(map[string]any); is && o["kind"] == "PersistentVolumeClaim" {
		spec[classKey] = class
	}
	text, err := json.Marshal(o)
	return text, failure.Wrap(err, failure.Corrupt, op, class)
}

// ClassOf returns the StorageClass that a claim names; "" for none.
func ClassOf(claim json.RawMessage) (string, error) {
	var pvc corev1.PersistentVolumeClaim
	if err := json.Unmarshal(claim, &pvc); err != nil {
		return "", failure.Wrap(err, failure.Corrupt, "read claim", "")
	}
	return ptr.Deref(pvc.Spec.StorageClassName, ""), nil
}

const classKey = "storageClassName"

// setClass sets each StorageClass that an object names, and names no class of a volume's attributes, which are of one
// driver.
func setClass(value any, class string) {
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			setClass(one, class)
		}
	case map[string]any:
		delete(v, "volumeAttributesClassName")
		for key, one := range v {
			if name, is := one.(string); is && key == classKey && name != "" {
				v[key] = class
				continue
			}
			setClass(one, class)
		}
	}
}
