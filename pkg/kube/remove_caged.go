package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// Caged is what a drill needs to remove the cluster that it restored.
type Caged interface {
	// RemoveCaged deletes the cluster that the run made in a namespace as DeleteCluster does, also one that serves: it
	// is only for a cage, whose UID has to be given. In a namespace with another UID nothing is deleted: Conflict; so
	// it is for a cluster that another run made. If the namespace is gone, what is left of it outside goes: persistent
	// volumes. EBS volumes that the run made stay.
	RemoveCaged(ctx context.Context, name cluster.Name, run cluster.RunID, namespace string) error
	// Handles maps every EBS volume named by a persistent volume to that one's name.
	Handles(ctx context.Context) (map[cluster.VolumeID]string, error)
	Identity
	Server() string
}

var _ Caged = (*Client)(nil)

// RemoveCaged implements Caged.
func (c *Client) RemoveCaged(ctx context.Context, name cluster.Name, run cluster.RunID, namespace string) error {
	const op = "remove caged cluster"
	if run == "" || namespace == "" {
		return failure.New(failure.Usage, op, name.String(), "the run and the namespace's UID have to be known")
	}
	r := removal{Client: c, name: name, run: run}
	return untilDone(ctx, func(ctx context.Context) error {
		if err := c.checkNamespace(ctx, op, name.Namespace, namespace); err != nil {
			return err
		}
		of, found, err := c.locate(ctx, name)
		switch {
		case err != nil:
			return err
		case found == nil:
			return r.deleteRest(ctx)
		case !runmark.MadeBy(found, run):
			return runmark.CheckMade(found, run, op, name.String())
		}
		return r.deleteThis(ctx, of, found)
	})
}

// checkNamespace returns a Conflict unless the namespace has this UID, or is gone.
func (c *Client) checkNamespace(ctx context.Context, op, name, uid string) error {
	found, err := NamespaceUID(ctx, c, name)
	if err != nil || found == "" || found == uid {
		return err
	}
	return failure.New(failure.Conflict, op, name, "the namespace has UID %s, not %s: it is another one", found, uid).
		WithHint("kubectl get namespace %s -o yaml: whose is it?", name)
}

// Cages returns the cages of this Kubernetes cluster.
func (c *Client) Cages() *cage.Cages { return cage.New(c.core) }

// Jobs returns the Jobs of runs in this Kubernetes cluster.
func (c *Client) Jobs() *workers.Jobs { return workers.New(c.core) }

// BlockVolumes returns the claims by which runs ask for block volumes in this Kubernetes cluster.
func (c *Client) BlockVolumes() *blockvolume.Claims { return blockvolume.New(c.core) }

// Probes returns the probes of a run's cage, whose pods run nc of the image.
func (c *Client) Probes(run cluster.RunID, image string) cage.Prober {
	return &cage.Pods{Core: c.core, Run: run, Image: image}
}

// NamespaceUID returns the UID of a namespace; "" if there is none.
func NamespaceUID(ctx context.Context, c *Client, name string) (string, error) {
	ns, err := c.core.Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", kubeerr.Wrap(err, "read namespace", name)
	}
	return string(ns.UID), nil
}
