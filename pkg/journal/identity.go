package journal

import (
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// SameCluster returns a Conflict, which names both, if the run's cluster is known to differ from other's of the same
// name: by PD's cluster id, or by the UID of its Kubernetes cluster. It is proven to be the same only if both have one
// of these.
func (a *About) SameCluster(run cluster.RunID, other *About) (proven bool, err error) {
	samePD, differs := compareIDs(a.ClusterID, other.ClusterID)
	sameKubernetes, elsewhere := compareIDs(a.KubernetesUID, other.KubernetesUID)
	if differs || elsewhere {
		return false, failure.New(failure.Conflict, "check run", string(run),
			"it is of another cluster that is called %s: of that with %s, and this one has %s",
			a.Cluster, a.identity(), other.identity()).
			WithHint("use --kubeconfig, --context and --pd of the run's cluster; for this one, leave --run-id out")
	}
	return samePD || sameKubernetes, nil
}

// compareIDs compares ids of which the zero value is none.
func compareIDs[T comparable](a, b T) (same, differ bool) {
	var none T
	if a == none || b == none {
		return false, false
	}
	return a == b, a != b
}

// identity describes what distinguishes the run's cluster from others of its name.
func (a *About) identity() string {
	var ids []string
	if a.ClusterID != 0 {
		ids = append(ids, fmt.Sprintf("PD's cluster id %d", a.ClusterID))
	}
	if a.KubernetesUID != "" {
		ids = append(ids, fmt.Sprintf("Kubernetes' id %s", a.KubernetesUID))
	}
	if a.Kubernetes != "" {
		ids = append(ids, fmt.Sprintf("API server %s", a.Kubernetes))
	}
	return strings.Join(ids, ", ")
}
