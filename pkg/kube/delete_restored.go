package kube

import (
	"context"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Undoer takes back what a restore wrote, where DeleteCluster does not.
type Undoer interface {
	// DeleteRestored deletes the claims and PVs that the run made for a cluster that somebody else made, and
	// keeps the cluster and the EBS volumes. Call it only before StartTiKV: afterwards pods use them.
	DeleteRestored(ctx context.Context, name cluster.Name, run cluster.RunID) error
	// Provisioned lists the persistent volumes that Kubernetes made for the cluster's claims (PD's, for one)
	// and that stay when the cluster goes, since their reclaim policy is Retain: as "PV (vol-…)".
	Provisioned(ctx context.Context, name cluster.Name, run cluster.RunID) ([]string, error)
}

var _ Undoer = (*Client)(nil)

// DeleteRestored deletes what carries the run; what is gone already is no error.
func (c *Client) DeleteRestored(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	if run == "" {
		return failure.New(failure.Usage, "delete restored claims", name.String(), "the run is not named")
	}
	return c.deleteRemains(ctx, name, run)
}

// Provisioned reads the PVs whose claims are the cluster's and that the run did not make.
func (c *Client) Provisioned(ctx context.Context, name cluster.Name, run cluster.RunID) ([]string, error) {
	claims, err := c.core.CoreV1().PersistentVolumeClaims(name.Namespace).List(ctx, instanceSelector(name))
	if err != nil {
		return nil, wrap(err, "list claims", name.String())
	}
	mine := map[string]bool{}
	for i := range claims.Items {
		mine[claims.Items[i].Spec.VolumeName] = true
	}
	volumes, err := c.core.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, wrap(err, "list persistent volumes", name.String())
	}
	var out []string
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if mine[pv.Name] && !madeBy(pv, run) && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			out = append(out, fmt.Sprintf("%s (%s)", pv.Name, volumeOf(pv)))
		}
	}
	sort.Strings(out)
	return out, nil
}
