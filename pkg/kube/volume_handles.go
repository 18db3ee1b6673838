package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

// handlesPage is the number of persistent volumes per call.
const handlesPage = 500

// Handles reads all persistent volumes. Kinds: Denied, Limited, Unknown.
func (c *Client) Handles(ctx context.Context) (map[cluster.VolumeID]string, error) {
	out := map[cluster.VolumeID]string{}
	options := metav1.ListOptions{Limit: handlesPage}
	for {
		list, err := c.core.PersistentVolumes().List(ctx, options)
		if err != nil {
			return nil, kubeerr.Wrap(err, "list persistent volumes", "")
		}
		for i := range list.Items {
			if id := volumeOf(&list.Items[i]); id != "" {
				out[id] = list.Items[i].Name
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return out, nil
		}
	}
}

// Server returns the URL of the API server.
func (c *Client) Server() string { return c.server }

// ClusterUID reads the namespace kube-system, which exists for the whole life of a Kubernetes cluster.
func (c *Client) ClusterUID(ctx context.Context) (string, error) {
	ns, err := c.core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", kubeerr.Wrap(err, "read namespace", metav1.NamespaceSystem)
	}
	return string(ns.UID), nil
}
