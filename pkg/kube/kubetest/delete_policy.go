package kubetest

import (
	"cmp"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	deletePolicy = "delete-pod.policy.pingcap.com"
	// tikvGrace is the termination grace period of Operator 2.x's TiKV pods, in seconds.
	tikvGrace = 65535
)

// delete removes an object for an outside client, unless the policy that Operator 2.x's chart installs is against it: a TiKV
// pod that is on a node needs a grace period of its own in the call, as the pod's is as good as endless.
func (s *Server) delete(r resource, namespace, name string, opts metav1.DeleteOptions) (object, error) {
	if o, exists := s.store.get(r.name, namespace, name); exists && r.name == pods {
		pod := mustTyped[corev1.Pod](o)
		grace := cmp.Or(opts.GracePeriodSeconds, pod.Spec.TerminationGracePeriodSeconds)
		ours := pod.Labels[managedByLabel] == managedBy && pod.Labels[componentLabel] == "tikv"
		if ours && pod.Spec.NodeName != "" && grace != nil && *grace >= tikvGrace {
			err := apierrors.NewForbidden(r.groupResource(), name, fmt.Errorf("ValidatingAdmissionPolicy '%s' with binding '%s' denied "+
				"request: gracePeriodSeconds(%d) is unset, it must be set when delete tikv pod ", deletePolicy, deletePolicy, *grace))
			err.ErrStatus.Reason, err.ErrStatus.Code = metav1.StatusReasonInvalid, http.StatusUnprocessableEntity
			return nil, err
		}
	}
	return s.store.remove(r, namespace, name, opts)
}
