package operator1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// failoverKey holds the source's spec.tikv.maxFailoverCount while a target is restored: "null" where it had none.
const failoverKey = "tisnap.io/max-failover-count"

// withoutFailover keeps the Operator from adding TiKV pods while stores come up slowly from cold volumes: a
// store of its own making would join the restored ones. The number that the source had is put back by
// withFailover.
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

// withFailover puts back what withoutFailover took; it changes nothing in a target of somebody else.
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
	// spec.tikv is a map: it was when the number was taken
	_ = unstructured.SetNestedField(o.Object, *was, "spec", "tikv", "maxFailoverCount")
}
