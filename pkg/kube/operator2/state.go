package operator2

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Annotations of a target's objects.
const (
	// recoveringKey is on a Cluster whose stores run, or will run, in recovery mode.
	recoveringKey = "tisnap.io/recovering"
	// lateKey has the groups that are created once the data are resolved.
	lateKey = "tisnap.io/groups"
	// restartedKey lists the uids of the pods that ran in recovery mode when it was left.
	restartedKey = "tisnap.io/restarted-pods"
	// ordinalKey is on an instance of TiKV: which of the backup's stores it is, in the order of their pods.
	ordinalKey = "tisnap.io/ordinal"
)

// Recovering reports whether a Cluster was made by a restore that has not taken it out of recovery mode.
func Recovering(o *unstructured.Unstructured) bool { return o.GetAnnotations()[recoveringKey] != "" }

// Paused reports whether the Operator acts on nothing of a Cluster.
func Paused(o *unstructured.Unstructured) bool {
	paused, _, _ := unstructured.NestedBool(o.Object, "spec", "paused")
	return paused
}

// EndPause lets the Operator act on a Cluster. It returns false if it does.
func EndPause(o *unstructured.Unstructured) bool {
	if !Paused(o) {
		return false
	}
	unstructured.RemoveNestedField(o.Object, "spec", "paused")
	return true
}

// LeaveRecovery records that a Cluster leaves recovery mode, and the uids of the pods that ran in it. If it has left
// already, it returns the uids recorded then, and there is nothing to write.
func LeaveRecovery(o *unstructured.Unstructured, pods []string) (restarted []string, left bool) {
	a := o.GetAnnotations()
	if !Recovering(o) {
		return strings.Split(a[restartedKey], ","), false
	}
	delete(a, recoveringKey)
	a[restartedKey] = strings.Join(pods, ",")
	o.SetAnnotations(a)
	return pods, true
}

// saveLate keeps the groups that are created last in the Cluster, for any process that is to start them.
func saveLate(o *unstructured.Unstructured, late []*unstructured.Unstructured) error {
	if len(late) == 0 {
		return nil
	}
	text, err := json.Marshal(late)
	if err != nil {
		return failure.Wrap(err, failure.Corrupt, makeCluster, o.GetName())
	}
	a := o.GetAnnotations()
	a[lateKey] = string(text)
	o.SetAnnotations(a)
	return nil
}

// Late returns the groups of a target that are created last; none once they were.
func Late(o *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	text := o.GetAnnotations()[lateKey]
	if text == "" {
		return nil, nil
	}
	var late []*unstructured.Unstructured
	err := json.Unmarshal([]byte(text), &late)
	return late, failure.Wrap(err, failure.Corrupt, "read the groups to create", o.GetNamespace()+"/"+o.GetName())
}

// ForgetLate notes that the groups of Late were created. It returns false if there is nothing to write.
func ForgetLate(o *unstructured.Unstructured) bool {
	a := o.GetAnnotations()
	if a[lateKey] == "" {
		return false
	}
	delete(a, lateKey)
	o.SetAnnotations(a)
	return true
}

// Serves returns why a Cluster created by a restore may serve: it has left recovery mode, or TiDB runs. "" if neither.
func Serves(o *unstructured.Unstructured) string {
	if !Recovering(o) {
		return "cluster " + o.GetName() + " is not in recovery mode: it serves"
	}
	return RunsTiDB(o)
}

// RunsTiDB returns that TiDB runs in a Cluster; "" if it does not.
func RunsTiDB(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	if slices.ContainsFunc(conditions, func(c any) bool {
		is, _ := c.(map[string]any)
		return is["type"] == "Available" && is["status"] == "True"
	}) {
		return "TiDB runs in it: it is Available"
	}
	return ""
}

// Ordinals maps the pods of a target's instances of TiKV to the ordinals of the backup's stores.
func Ordinals(instances []unstructured.Unstructured) map[string]int {
	of := map[string]int{}
	for i := range instances {
		if n, err := strconv.Atoi(instances[i].GetAnnotations()[ordinalKey]); err == nil {
			of[podName(instances[i].GetName())] = n
		}
	}
	return of
}
