package operator1

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Store is a store of a target.
type Store struct {
	Cluster  cluster.Name
	Instance string // TidbCluster.Instance of the target; "" is its name
	Ordinal  int    // of its pod
}

// Pod returns the name that the StatefulSet gives.
func (s Store) Pod() string { return fmt.Sprintf("%s-tikv-%d", s.Cluster.Name, s.Ordinal) }

// Claim returns the name of the target pod's claim that replaces the source's: both begin with the volume's name,
// "tikv" or "tikv-NAME", and end with the pod's.
func (s Store) Claim(source *metav1.ObjectMeta) (string, error) {
	// The Operator annotates the claim with its pod; versions that did not used the cluster's name as the instance.
	pod := regexp.QuoteMeta(cmp.Or(source.Annotations[podNameKey], source.Labels[podNameKey]))
	if instance := source.Labels[InstanceLabel]; pod == "" && instance != "" {
		pod = regexp.QuoteMeta(instance) + `-tikv-\d+`
	}
	match := regexp.MustCompile(`^(tikv(?:-.+)?)-` + pod + `$`).FindStringSubmatch(source.Name)
	if pod == "" || match == nil {
		return "", failure.New(failure.Corrupt, "name claim", source.Name,
			"not the claim of a tikv pod of its annotation %s or of the cluster in its label %s", podNameKey,
			InstanceLabel)
	}
	return match[1] + "-" + s.Pod(), nil
}

// Labels derives the target's labels from the source's. The store keeps its id; the cluster has a new one.
func (s Store) Labels(from map[string]string) map[string]string {
	labels := maps.Clone(from)
	if labels == nil {
		labels = map[string]string{}
	}
	delete(labels, clusterIDLabel)
	labels[InstanceLabel] = cmp.Or(s.Instance, s.Cluster.Name)
	labels[ComponentLabel] = TiKV
	s.RenamePod(labels)
	return labels
}

// RenamePod updates the pod name in labels or annotations that have one.
func (s Store) RenamePod(m map[string]string) {
	if _, has := m[podNameKey]; has {
		m[podNameKey] = s.Pod()
	}
}
