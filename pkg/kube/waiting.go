package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// maxReasons bounds the list of Waiting: a thousand pods would have the same reason.
const maxReasons = 10

// waiting returns why the cluster is not up: which pods are not running and why, or why none were created. It only
// lists pods and warnings, so it can be called every few seconds. It is empty if no reason is known, and NotFound if
// the cluster does not exist.
func (c generation1) waiting(ctx context.Context, name cluster.Name) ([]string, error) {
	o, err := c.getCluster(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := c.core.Pods(name.Namespace).List(ctx, operator1.InstanceSelector(operator1.Instance(o)))
	if err != nil {
		return nil, kubeerr.Wrap(err, "list pods", name.String())
	}
	warned := c.warnings(ctx, name.Namespace)
	for _, component := range operator1.StartOrder(o) {
		pods := slices.DeleteFunc(slices.Clone(list.Items),
			func(p corev1.Pod) bool { return p.Labels[operator1.ComponentLabel] != component })
		if len(pods) == 0 {
			return []string{noPods(o, component, warned)}, nil
		}
		if reasons := podReasons(pods, warned); len(reasons) > 0 {
			return reasons, nil
		}
	}
	return nil, nil
}

// noPods returns why a component has no pods: from an event of the Operator, or because the Operator is missing.
func noPods(o *unstructured.Unstructured, component string, warned warnings) string {
	for _, of := range []string{"StatefulSet/" + o.GetName() + "-" + component, "TidbCluster/" + o.GetName()} {
		if why := warned[of]; why != "" {
			return fmt.Sprintf("no %s pod has been created: %s", component, why)
		}
	}
	if _, touched := o.Object["status"]; !touched {
		return fmt.Sprintf("no %s pod has been created, and TidbCluster %s has no status: check that TiDB Operator "+
			"runs (kubectl get pods -A -l app.kubernetes.io/name=tidb-operator)", component, o.GetName())
	}
	return fmt.Sprintf("no %s pod has been created: see the Operator's log", component)
}

// podReasons lists the pods that are not ready, the first of them with their reasons.
func podReasons(pods []corev1.Pod, warned warnings) []string {
	var reasons []string
	waiting := 0
	for i := range pods {
		if isReady(&pods[i]) {
			continue
		}
		if waiting++; waiting <= maxReasons {
			reasons = append(reasons, "pod "+pods[i].Name+": "+podReason(&pods[i], warned[string(pods[i].UID)]))
		}
	}
	if waiting > maxReasons {
		reasons = append(reasons, fmt.Sprintf("and %d more pods", waiting-maxReasons))
	}
	return reasons
}

// warnings are the newest warnings in a namespace: of pods by uid, since one about an earlier pod of the same name does
// not apply, and of other objects by "Kind/name".
type warnings map[string]string

// warnings reads them. It ignores errors: warnings are only explanations.
func (c *Client) warnings(ctx context.Context, namespace string) warnings {
	found, newest := warnings{}, map[string]metav1.Time{}
	list, err := c.core.Events(namespace).
		List(context.WithValue(ctx, optional{}, true),
			metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		return found
	}
	for _, e := range list.Items {
		of := string(e.InvolvedObject.UID)
		if e.InvolvedObject.Kind != "Pod" {
			of = e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
		}
		at := e.LastTimestamp
		if at.IsZero() {
			at = metav1.NewTime(e.EventTime.Time)
		}
		if was, seen := newest[of]; seen && at.Before(&was) {
			continue
		}
		newest[of] = at
		found[of] = e.Reason + ": " + e.Message
	}
	return found
}
