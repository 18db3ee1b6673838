package operator1

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// leftRecoveryKey lists the uids of the pods that ran in recovery mode when it was cleared. Only those are deleted: a
// second call must not restart TiKV again.
const leftRecoveryKey = "tisnap.io/restarted-pods"

// StartTiKV sets the annotation that makes the Operator start TiKV. It returns false if there is nothing to write.
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

// LeaveRecovery clears recovery mode and records the uids of the pods that ran in it. If it was already cleared, it
// returns the uids recorded then, and there is nothing to write.
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

// StartTiDB restores the number of TiDB replicas, which Make set to 0. If Make did not, it returns false and changes
// nothing.
func StartTiDB(o *unstructured.Unstructured) bool {
	if _, saved := o.GetAnnotations()[tidbReplicasKey]; !saved {
		return false
	}
	withTiDB(o)
	return true
}

// Serves returns why a cluster created by a restore may serve: it has left recovery mode, or TiDB runs. "" if neither.
func Serves(tc *unstructured.Unstructured) string {
	if recovery, _, _ := unstructured.NestedBool(tc.Object, "spec", "recoveryMode"); !recovery {
		return "cluster " + tc.GetName() + " is not in recovery mode: it serves"
	}
	return RunsTiDB(tc)
}

// RunsTiDB names a healthy TiDB member of the cluster, "" if there is none.
func RunsTiDB(tc *unstructured.Unstructured) string {
	members, _, _ := unstructured.NestedMap(tc.Object, "status", "tidb", "members")
	for name, member := range members {
		if fields, ok := member.(map[string]any); ok && fields["health"] == true {
			return "TiDB runs in it: " + name
		}
	}
	return ""
}

// MayUse returns why a cluster of the same name, not created by the run, may use the run's claims; "" if it cannot.
func MayUse(tc *unstructured.Unstructured) string {
	if why := Serves(tc); why != "" {
		return why
	}
	if tc.GetAnnotations()[volumesReadyKey] != "" {
		return "cluster " + tc.GetName() + ", not created by the run, may use the volumes: TiKV was allowed to start"
	}
	return ""
}

// StartOrder returns the components that should have pods by now, in the order in which the Operator starts them.
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
