package kube

import (
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

// DeleteCluster takes a target away again: the TidbCluster, then its pods and claims, then the run's PVs, whose EBS
// volumes stay. It returns when the API server has accepted the deletions; callers who need the names again poll
// Cluster and Claims. A target that is gone already is no error, and what an interrupted call left behind is deleted.
// Transient errors are retried until ctx ends.
func (c *Client) DeleteCluster(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	if run == "" {
		return failure.New(failure.Usage, "delete tidbcluster", name.String(), "the run is not named")
	}
	return untilDone(ctx, func(ctx context.Context) error { return c.deleteCluster(ctx, name, run) })
}

func (c *Client) deleteCluster(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	const op = "delete tidbcluster"
	api := c.dynamic.Resource(tidbClusterResource()).Namespace(name.Namespace)
	found, err := api.Get(ctx, name.Name, metav1.GetOptions{})
	switch wrapped := wrap(err, op, name.String()); {
	case failure.Is(wrapped, failure.NotFound):
		return c.deleteRemains(ctx, name, run)
	case err != nil:
		return wrapped
	}
	if !madeBy(found, run) {
		return checkMade(found, run, op, name.String())
	}
	return c.deleteThis(ctx, found, name, run, onlyThis(found.GetUID()))
}

// deleteThis deletes the TidbCluster that was found, its pods and what carries the run.
func (c *Client) deleteThis(ctx context.Context, found *unstructured.Unstructured, name cluster.Name, run cluster.RunID, this metav1.DeleteOptions) error {
	const op = "delete tidbcluster"
	// Claims that the StatefulSets made do not name the run. Once the cluster is gone nothing else would
	// distinguish them from those of an earlier cluster of the name.
	instance := instanceOfCluster(found)
	if err := c.claimForRun(ctx, name, instance, run); err != nil {
		return err
	}
	err := c.dynamic.Resource(tidbClusterResource()).Namespace(name.Namespace).Delete(ctx, name.Name, this)
	switch {
	case apierrors.IsConflict(err): // it changed since: it is read again
		return failure.New(failure.Limited, op, name.String(), "%w", err)
	case err != nil && !apierrors.IsNotFound(err):
		return wrap(err, op, name.String())
	}
	return errors.Join(
		c.deletePods(ctx, name, instance),
		c.deleteRemains(ctx, name, run),
	)
}

// untilDone repeats f after transient errors, with growing pauses, until ctx ends.
func untilDone(ctx context.Context, f func(context.Context) error) error {
	for interval := minUndoInterval; ; interval = min(2*interval, maxUndoInterval) {
		err := f(ctx)
		if err == nil || !anyTransient(err) || wait.For(ctx, interval) != nil {
			return err
		}
	}
}

const (
	minUndoInterval = 100 * time.Millisecond
	maxUndoInterval = 5 * time.Second
)

// anyTransient reports whether one of joined errors may be gone at the next try.
func anyTransient(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // the parts of this very error
		return slices.ContainsFunc(joined.Unwrap(), anyTransient)
	}
	return failure.Transient(err)
}

// claimForRun marks every claim of the cluster as made by the run. The label decides: by its name a claim might be
// that of a volume of another cluster.
func (c *Client) claimForRun(ctx context.Context, name cluster.Name, instance string, run cluster.RunID) error {
	list, err := c.core.CoreV1().PersistentVolumeClaims(name.Namespace).List(ctx, instanceSelector(instance))
	if err != nil {
		return wrap(err, "list claims", name.String())
	}
	return parallel.Each(ctx, parallelRequests, list.Items, func(ctx context.Context, _ int, claim corev1.PersistentVolumeClaim) error {
		if madeBy(&claim, run) {
			return nil
		}
		return c.markClaim(ctx, claim.Namespace, claim.Name, run)
	})
}

func (c *Client) markClaim(ctx context.Context, namespace, name string, run cluster.RunID) error {
	api := c.core.CoreV1().PersistentVolumeClaims(namespace)
	return untilWritten(ctx, "mark claim", namespace+"/"+name, func() error {
		current, err := api.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		markRun(current, run)
		_, err = api.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// deletePods deletes the pods of all components, so that the claims are released at once.
func (c *Client) deletePods(ctx context.Context, name cluster.Name, instance string) error {
	list, err := c.core.CoreV1().Pods(name.Namespace).List(ctx, instanceSelector(instance))
	if err != nil {
		return wrap(err, "list pods", name.String())
	}
	return c.deleteEachPod(ctx, list.Items)
}

func onlyThis(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// gone takes an object that does not exist any more for deleted.
func gone(op, target string, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return wrap(err, op, target)
}
