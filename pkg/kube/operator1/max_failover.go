package operator1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// failoverKey holds the source's spec.tikv.maxFailoverCount during a restore: "null" if it had none.
const failoverKey = "tisnap.io/max-failover-count"

// withoutFailover keeps the Operator from adding TiKV pods while stores come up slowly from cold volumes: a new, empty
// store would join the restored ones. withFailover restores the source's number.
func withoutFailover(spec map[string]any) (kept string, ok bool) {
	tikv, isMap := spec["tikv"].(map[string]any)
	if !isMap || tikv["maxFailoverCount"] == int64(0) {
		return "", false
	}
	was, err := json.Marshal(tikv["maxFailoverCount"])
	if err != nil {
		return "", false
	}
	tikv["maxFailoverCount"] = int64(0)
	return string(was), true
}

// withFailover reverts withoutFailover; it does not change a target created by others.
func withFailover(o *unstructured.Unstructured) {
	a := o.GetAnnotations()
	kept, has := a[failoverKey]
	if !has {
		return
	}
	delete(a, failoverKey)
	o.SetAnnotations(a)
	var was *int64
	if json.Unmarshal([]byte(kept), &was) != nil || was == nil {
		unstructured.RemoveNestedField(o.Object, "spec", "tikv", "maxFailoverCount")
		return
	}
	// spec.tikv is a map, or the annotation would not exist
	_ = unstructured.SetNestedField(o.Object, *was, "spec", "tikv", "maxFailoverCount")
}
