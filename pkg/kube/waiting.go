package kube

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/podreason"
)

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
	warned := podreason.Warned(ctx, c.core, name.Namespace)
	for _, component := range operator1.StartOrder(o) {
		pods := slices.DeleteFunc(slices.Clone(list.Items),
			func(p corev1.Pod) bool { return p.Labels[operator1.ComponentLabel] != component })
		if len(pods) == 0 {
			return []string{noPods(o, component, warned)}, nil
		}
		if reasons := podreason.All(pods, warned); len(reasons) > 0 {
			return reasons, nil
		}
	}
	return nil, nil
}

// noPods returns why a component has no pods: from an event of the Operator, or because the Operator is missing.
func noPods(o *unstructured.Unstructured, component string, warned podreason.Warnings) string {
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
