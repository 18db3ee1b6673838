package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// strays finds the claims and PVs that StatefulSets of a deleted cluster made and that have no run mark.
func (c *Client) strays(ctx context.Context, name cluster.Name) ([]Stray, error) {
	list, err := c.core.PersistentVolumeClaims(name.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list claims", name.String())
	}
	volumes, err := c.core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list persistent volumes", name.String())
	}
	own := operator1.MadeForPod(name.Name)
	var out []Stray
	at := map[string]int{} // claim name to index in out
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.Annotations[runmark.Key] == "" && claim.Labels[operator1.InstanceLabel] == name.Name &&
			own.MatchString(claim.Name) {
			at[claim.Name] = len(out)
			out = append(out, Stray{Claim: claim.Name})
		}
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		ref := pv.Spec.ClaimRef
		if ref == nil || ref.Namespace != name.Namespace || !own.MatchString(ref.Name) ||
			pv.Annotations[runmark.Key] != "" || restored(pv) {
			continue
		}
		if place, there := at[ref.Name]; there {
			out[place].Volume, out[place].Handle = pv.Name, volumeOf(pv)
		} else if pv.Labels[operator1.InstanceLabel] == name.Name || pv.Labels[operator1.InstanceLabel] == "" {
			out = append(out, Stray{Volume: pv.Name, Handle: volumeOf(pv)})
		}
	}
	return out, nil
}
