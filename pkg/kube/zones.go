package kube

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/podnodes"
)

// Zones lists, for each of the pods, the zones of the nodes that it may be put on, in order; none if these have no
// zones. Nodes that are not ready have a taint.
func (c *Client) Zones(ctx context.Context, pods ...podnodes.Rules) ([][]cluster.Zone, error) {
	list, err := c.core.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list zones", "nodes")
	}
	out := make([][]cluster.Zone, len(pods))
	for i := range pods {
		found := map[cluster.Zone]bool{}
		for k := range list.Items {
			node := &list.Items[k]
			if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" && pods[i].Admit(node) {
				found[cluster.Zone(zone)] = true
			}
		}
		out[i] = slices.Sorted(maps.Keys(found))
	}
	return out, nil
}

// NodeRules implements Restorer.
func (c *Client) NodeRules(
	ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool,
) ([]podnodes.Rules, error) {
	rules, err := targetFor(c, source).nodeRules(ctx, source, to, volumes, exists)
	return rules, failure.Annotate(err, "choose nodes", to.Name.String())
}

func (c generation1) nodeRules(
	ctx context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, exists bool,
) ([]podnodes.Rules, error) {
	var of *unstructured.Unstructured
	if exists {
		found, err := c.get(ctx, to.Name)
		if err == nil && found == nil {
			err = c.noCluster(ctx, to.Name)
		}
		if err != nil {
			return nil, err
		}
		of = found
	} else {
		made, err := operator1.Make(source, to)
		if err != nil {
			return nil, err
		}
		of = made.Object
	}
	rules, err := operator1.TiKVNodes(of)
	return slices.Repeat([]podnodes.Rules{rules}, len(volumes)), err
}

func (generation2) nodeRules(
	_ context.Context, source json.RawMessage, to Target, volumes []RestoredVolume, _ bool,
) ([]podnodes.Rules, error) {
	made, err := makeTarget2(source, to, volumes)
	if err != nil {
		return nil, err
	}
	stores, err := made.NodeRules()
	out := make([]podnodes.Rules, len(volumes))
	for i, v := range volumes {
		out[i] = stores[v.Ordinal]
	}
	return out, err
}
