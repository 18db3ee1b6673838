package kubetest

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// overQuota refuses one more object of a kind whose number a ResourceQuota of the namespace limits. The caller holds the
// lock.
func (s *store) overQuota(r resource, key objectKey, o object) error {
	for _, what := range countedAs(r, o) {
		for at, quota := range s.objects["resourcequotas"] {
			text, limited, _ := unstructured.NestedString(quota, "spec", "hard", what)
			if !limited || at.namespace != key.namespace {
				continue
			}
			used := int64(0)
			for other, there := range s.objects[r.name] {
				if other.namespace == key.namespace && slices.Contains(countedAs(r, there), what) {
					used++
				}
			}
			if hard, err := quantity.ParseQuantity(text); err != nil || hard.Value() <= used {
				return apierrors.NewForbidden(r.groupResource(), key.name, fmt.Errorf(
					"exceeded quota: %s, requested: %s=1, used: %s=%d, limited: %s=%s", at.name, what, what, used, what, text))
			}
		}
	}
	return nil
}

// countedAs are the names under which a quota counts an object: count/tikvs.core.pingcap.com, count/pods, and those of
// services that are reached from outside. Of the core group nothing else is counted here.
func countedAs(r resource, o object) []string {
	if r.group != "" {
		return []string{"count/" + r.name + "." + r.group}
	}
	if r.name == pods {
		return []string{"count/pods"}
	}
	if r.name != services {
		return nil
	}
	switch kind, _, _ := unstructured.NestedString(o, "spec", "type"); kind {
	case "LoadBalancer":
		return []string{"services.loadbalancers", "services.nodeports"}
	case "NodePort":
		return []string{"services.nodeports"}
	}
	return nil
}
