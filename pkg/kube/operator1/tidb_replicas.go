package operator1

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// tidbReplicasKey holds a target's spec.tidb.replicas during a restore.
const tidbReplicasKey = "tisnap.io/tidb-replicas"

// withoutTiDB keeps the Operator from starting TiDB while the data is being resolved. The Operator ignores recovery
// mode there and starts TiDB as soon as one store is up (Sync in pkg/manager/member/tidb_member_manager.go of
// pingcap/tidb-operator). Half of such a TiDB's transaction would be lost if one of its regions is flashed back and
// another is not. TiDB's services and StatefulSet are created anyway, so that only its pods are missing when withTiDB
// restores the number.
func withoutTiDB(spec map[string]any) (kept string, ok bool) {
	tidb, _ := spec["tidb"].(map[string]any)
	replicas, isNumber := tidb["replicas"].(int64)
	if !isNumber || replicas == 0 {
		return "", false
	}
	tidb["replicas"] = int64(0)
	return strconv.FormatInt(replicas, 10), true
}

// withTiDB reverts withoutTiDB; it changes neither a target created by others nor a number that was set meanwhile.
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
	// spec.tidb is a map, or the annotation would not exist
	_ = unstructured.SetNestedField(o.Object, replicas, "spec", "tidb", "replicas")
}
