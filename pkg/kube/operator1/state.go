package operator1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leftRecoveryKey lists the uids of the pods that ran in recovery mode when it was cleared. Only those are
// deleted: a second call must not restart TiKV once more.
const leftRecoveryKey = "tisnap.io/restarted-pods"

// StartTiKV sets the annotation on which the Operator starts TiKV. It returns false if there is nothing to write.
func StartTiKV(o *unstructured.Unstructured) bool {
	a := o.GetAnnotations()
	if a[volumesReadyKey] != "" {
		return false
	}
	if a == nil {
		a = map[string]string{}
	}
	a[volumesReadyKey] = "true"
	o.SetAnnotations(a)
	return true
}

// LeaveRecovery clears recovery mode, and notes the uids of the pods that ran in it. If it was cleared already, it
// returns those of that time, and there is nothing to write.
func LeaveRecovery(o *unstructured.Unstructured, pods []string) (restarted []string, cleared bool) {
	recovery, _, _ := unstructured.NestedBool(o.Object, "spec", "recoveryMode")
	a := o.GetAnnotations()
	if !recovery {
		return strings.Split(a[leftRecoveryKey], ","), false
	}
	unstructured.RemoveNestedField(o.Object, "spec", "recoveryMode")
	if a == nil {
		a = map[string]string{}
	}
	a[leftRecoveryKey] = strings.Join(pods, ",")
	delete(a, volumesReadyKey) // as at the end of the Operator's own restore
	o.SetAnnotations(a)
	withFailover(o)
	return pods, true
}

// StartTiDB puts the number of TiDB servers back that Make took. It returns false, and changes nothing, where it took
// none.
func StartTiDB(o *unstructured.Unstructured) bool {
	if _, taken := o.GetAnnotations()[tidbReplicasKey]; !taken {
		return false
	}
	withTiDB(o)
	return true
}

// Serves says why a cluster that a restore made may serve: it has left recovery mode, or TiDB runs.
func Serves(tc *unstructured.Unstructured) string {
	if recovery, _, _ := unstructured.NestedBool(tc.Object, "spec", "recoveryMode"); !recovery {
		return "cluster " + tc.GetName() + " is not in recovery mode: it serves"
	}
	return RunsTiDB(tc)
}

// RunsTiDB names a TiDB of the cluster that is healthy.
func RunsTiDB(tc *unstructured.Unstructured) string {
	members, _, _ := unstructured.NestedMap(tc.Object, "status", "tidb", "members")
	for name, member := range members {
		if fields, ok := member.(map[string]any); ok && fields["health"] == true {
			return "TiDB runs in it: " + name
		}
	}
	return ""
}

// MayUse says why a cluster of the name, which the run did not make, may use the run's claims.
func MayUse(tc *unstructured.Unstructured) string {
	if why := Serves(tc); why != "" {
		return why
	}
	if tc.GetAnnotations()[volumesReadyKey] != "" {
		return "cluster " + tc.GetName() + ", which the run did not make, may use the volumes: its TiKV was let start"
	}
	return ""
}

// StartOrder are the components that have pods by now, in the order in which the Operator starts them.
func StartOrder(o *unstructured.Unstructured) []string {
	order := []string{"pd"}
	recovery, _, _ := unstructured.NestedBool(o.Object, "spec", "recoveryMode")
	if !recovery || o.GetAnnotations()[volumesReadyKey] != "" {
		order = append(order, TiKV)
	}
	if !recovery {
		order = append(order, "tidb")
	}
	return slices.DeleteFunc(order, func(component string) bool {
		replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", component, "replicas")
		return replicas == 0
	})
}
