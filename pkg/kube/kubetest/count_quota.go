package kubetest

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// overQuota refuses one more object of a kind whose number a ResourceQuota of the namespace limits, as
// count/tikvs.core.pingcap.com. The caller holds the lock.
func (s *store) overQuota(r resource, key objectKey) error {
	if r.group == "" { // counted by other names
		return nil
	}
	what := "count/" + r.name + "." + r.group
	for at, quota := range s.objects["resourcequotas"] {
		text, limited, _ := unstructured.NestedString(quota, "spec", "hard", what)
		if !limited || at.namespace != key.namespace {
			continue
		}
		used := int64(0)
		for other := range s.objects[r.name] {
			if other.namespace == key.namespace {
				used++
			}
		}
		if hard, err := quantity.ParseQuantity(text); err != nil || hard.Value() <= used {
			return apierrors.NewForbidden(r.groupResource(), key.name, fmt.Errorf(
				"exceeded quota: %s, requested: %s=1, used: %s=%d, limited: %s=%s", at.name, what, what, used, what, text))
		}
	}
	return nil
}
