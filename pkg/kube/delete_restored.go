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
