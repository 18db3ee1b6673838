package forward

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
)

// IsClusterAddress reports whether the host of a host:port is the DNS name of a pod or service, which resolves only
// inside the cluster: POD.SERVICE.NAMESPACE.svc or SERVICE.NAMESPACE.svc, followed by any cluster domain or none, or
// what TiDB Operator 2.x names a PD or a store, which ends with the namespace: POD.SERVICE.NAMESPACE.
func IsClusterAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, ok := parseClusterName(host)
	return ok
}

// clusterName is a parsed DNS name of the cluster.
type clusterName struct{ pod, service, namespace string } // pod is "" in a service's name

func parseClusterName(host string) (clusterName, bool) {
	labels := strings.Split(strings.TrimSuffix(strings.ToLower(host), "."), ".")
	if slices.Contains(labels, "") {
		return clusterName{}, false
	}
	switch {
	case len(labels) >= 3 && labels[2] == "svc":
		return clusterName{service: labels[0], namespace: labels[1]}, true
	case len(labels) >= 4 && labels[3] == "svc":
		return clusterName{pod: labels[0], service: labels[1], namespace: labels[2]}, true
	case len(labels) == 3 && operator2.IsPod(labels[0]) && operator2.IsHeadless(labels[1]):
		return clusterName{pod: labels[0], service: labels[1], namespace: labels[2]}, true
	}
	return clusterName{}, false
}

// podAt finds the pod behind an address. TiDB Operator 1.x names a service after the StatefulSet whose pods it selects,
// and 2.x after the group or the cluster; for a service, podAt picks the first ready one of these.
func (f *Forwarder) podAt(ctx context.Context, host string) (types.NamespacedName, error) {
	const op = "find the pod of an address"
	name, ok := parseClusterName(host)
	if !ok {
		return types.NamespacedName{}, failure.New(failure.Usage, op, host, "not the DNS name of a pod or service")
	}
	if name.pod != "" {
		return types.NamespacedName{Namespace: name.namespace, Name: name.pod}, nil
	}
	list, err := f.cfg.Core.Pods(name.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return types.NamespacedName{}, kubeerr.Wrap(err, op, host)
	}
	var found *corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.DeletionTimestamp != nil ||
			!isMember(pod, name.service) && !operator2.IsBehind(name.service, pod.Labels) {
			continue
		}
		if found == nil || ready(pod) && !ready(found) {
			found = pod
		}
	}
	if found == nil {
		return types.NamespacedName{}, failure.New(failure.NotFound, op, host, "no pod of service %s/%s exists",
			name.namespace, name.service).
			WithHint("a service with a name of its own cannot be followed: name one of PD's pods, "+
				"--pd http://POD.SERVICE.%s.svc:2379", name.namespace)
	}
	return types.NamespacedName{Namespace: found.Namespace, Name: found.Name}, nil
}

// isMember reports whether a pod is of the StatefulSet with the service's name.
func isMember(p *corev1.Pod, service string) bool {
	ordinal, found := strings.CutPrefix(p.Name, service+"-")
	_, err := strconv.ParseUint(ordinal, 10, 31)
	return found && err == nil
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
