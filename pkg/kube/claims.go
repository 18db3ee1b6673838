package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
)

// Claims lists the names of the cluster's TiKV claims in order, used or not.
func (c *Client) Claims(ctx context.Context, name cluster.Name) ([]string, error) {
	list, err := c.claimsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	return claimNames(slices.DeleteFunc(list, func(pvc corev1.PersistentVolumeClaim) bool {
		return pvc.Labels[operator1.ComponentLabel] != operator1.TiKV &&
			!strings.HasPrefix(pvc.Name, operator1.TiKV+"-") && !operator2.IsStoreOf(name.Name, pvc.Labels)
	})), nil
}

func claimNames(list []corev1.PersistentVolumeClaim) []string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	slices.Sort(names)
	return names
}

// claimsOf lists the claims with the cluster's label of either generation, and those with only a matching name: a
// StatefulSet finds claims by name, and those left by an Argo CD cluster have another label.
func (c *Client) claimsOf(ctx context.Context, name cluster.Name) ([]corev1.PersistentVolumeClaim, error) {
	instance, err := c.instance(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := c.core.PersistentVolumeClaims(name.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list claims", name.String())
	}
	own := operator1.ClaimOf(name.Name)
	return slices.DeleteFunc(list.Items, func(pvc corev1.PersistentVolumeClaim) bool {
		return pvc.Labels[operator1.InstanceLabel] != instance && !own.MatchString(pvc.Name) &&
			!operator2.IsOf(name.Name, pvc.Labels)
	}), nil
}
