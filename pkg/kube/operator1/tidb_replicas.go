package operator1

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tidbReplicasKey holds spec.tidb.replicas of a target while it is restored.
const tidbReplicasKey = "tisnap.io/tidb-replicas"

// withoutTiDB keeps the Operator from starting TiDB while the data are resolved. It does not look at recovery mode for
// that: one store that is up is enough (Sync in pkg/manager/member/tidb_member_manager.go of pingcap/tidb-operator).
// A transaction of such a TiDB over a region that is taken back and one that is left alone would be taken back in half.
// Its services and its StatefulSet are made all the same, so that only its pods are missing when withTiDB puts the
// number back.
func withoutTiDB(spec map[string]any) (kept string, ok bool) {
	tidb, _ := spec["tidb"].(map[string]any)
	replicas, isNumber := tidb["replicas"].(int64)
	if !isNumber || replicas == 0 {
		return "", false
	}
	tidb["replicas"] = int64(0)
	return strconv.FormatInt(replicas, 10), true
}

// withTiDB puts back what withoutTiDB took; it changes nothing in a target of somebody else, nor where somebody has set
// another number meanwhile.
func withTiDB(o *unstructured.Unstructured) {
	a := o.GetAnnotations()
	kept, has := a[tidbReplicasKey]
	if !has {
		return
	}
	delete(a, tidbReplicasKey)
	o.SetAnnotations(a)
	now, is, err := unstructured.NestedInt64(o.Object, "spec", "tidb", "replicas")
	replicas, bad := strconv.ParseInt(kept, 10, 32)
	if err != nil || bad != nil || is && now != 0 {
		return
	}
	// spec.tidb is a map: it was when the number was taken
	_ = unstructured.SetNestedField(o.Object, replicas, "spec", "tidb", "replicas")
}
