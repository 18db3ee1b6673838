package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Handles tells which EBS volumes a Kubernetes cluster knows. Nothing here changes anything.
type Handles interface {
	// Handles maps every EBS volume that a persistent volume names to the name of that one, whatever its
	// phase and whoever made it.
	Handles(ctx context.Context) (map[cluster.VolumeID]string, error)
	// Server is the URL of the API server: what tells one Kubernetes cluster from another.
	Server() string
}

var _ Handles = (*Client)(nil)

// handlesPage is how many persistent volumes are asked for at a time.
const handlesPage = 500

// Handles reads all persistent volumes. Kinds: Denied, Limited, Unknown.
func (c *Client) Handles(ctx context.Context) (map[cluster.VolumeID]string, error) {
	out := map[cluster.VolumeID]string{}
	options := metav1.ListOptions{Limit: handlesPage}
	for {
		list, err := c.core.CoreV1().PersistentVolumes().List(ctx, options)
		if err != nil {
			return nil, wrap(err, "list persistent volumes", "")
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

// Server is the URL of the API server.
func (c *Client) Server() string { return c.server }
