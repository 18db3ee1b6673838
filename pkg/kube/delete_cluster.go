package kube

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

// DeleteCluster deletes a target and whatever belongs to it, except for the run's EBS volumes: see the removers for the
// order. It returns when all of it is gone. A target that is already gone is no error, and leftovers of an interrupted
// call are deleted. A target that serves is a Conflict and is kept, as another process of the run may have finished it:
// it runs TiDB, or has left recovery mode. left means that the caller itself took it out of recovery mode. Transient
// errors are retried until ctx ends.
func (c *Client) DeleteCluster(ctx context.Context, name cluster.Name, run cluster.RunID, left bool) error {
	const op = "delete cluster"
	if run == "" {
		return failure.New(failure.Usage, op, name.String(), "the run is not named")
	}
	r := removal{Client: c, name: name, run: run}
	return untilDone(ctx, func(ctx context.Context) error {
		of, found, err := c.locate(ctx, name)
		switch {
		case err != nil:
			return err
		case found == nil:
			return r.deleteRest(ctx)
		case !runmark.MadeBy(found, run):
			return runmark.CheckMade(found, run, op, name.String())
		}
		why := of.serves(found)
		if left {
			why = of.runsTiDB(found)
		}
		if why != "" {
			return failure.New(failure.Conflict, op, name.String(), "%s", why)
		}
		return r.deleteThis(ctx, of, found)
	})
}

// removal removes a target of any generation.
type removal struct {
	*Client
	name cluster.Name
	run  cluster.RunID
	of   remover // of the target that was found
}

func (r *removal) deleteThis(ctx context.Context, of target, found *unstructured.Unstructured) error {
	if r.of == nil {
		r.of = of.remover(r.name, r.run)
	}
	return r.of.deleteThis(ctx, found)
}

// deleteRest deletes what is left of the target that was found. If none was, it may be of any generation.
func (r *removal) deleteRest(ctx context.Context) error {
	if r.of != nil {
		return r.of.deleteRest(ctx)
	}
	for _, g := range r.generations() {
		if err := g.remover(r.name, r.run).deleteRest(ctx); err != nil && !kubeerr.NotServed(err) {
			return err
		}
	}
	return nil
}

func (c generation1) remover(name cluster.Name, run cluster.RunID) remover {
	return &deletion{Client: c.Client, name: name, run: run}
}

// deleteThis deletes the TidbCluster, then its StatefulSets with their pods, then its claims and the run's PVs, whose
// EBS volumes are kept. The order matters: a live StatefulSet would recreate a deleted claim, and the CSI driver a
// volume for it.
func (d *deletion) deleteThis(ctx context.Context, found *unstructured.Unstructured) error {
	const op = "delete tidbcluster"
	d.target = found
	this := asItIs(found)
	// Claims made by the StatefulSets are not marked with the run. If this process ends after the cluster is gone,
	// nothing else would distinguish them from those of an earlier cluster of the same name.
	if err := d.claimForRun(ctx); err != nil {
		return err
	}
	// with foreground deletion the Operator would still see the object and recreate its StatefulSets
	background := metav1.DeletePropagationBackground
	this.PropagationPolicy = &background
	err := d.dynamic.Resource(operator1.Resource()).Namespace(d.name.Namespace).Delete(ctx, d.name.Name, this)
	switch {
	case apierrors.IsConflict(err): // changed since: read it again
		return failure.New(failure.Limited, op, d.name.String(), "%w", err)
	case err != nil && !apierrors.IsNotFound(err):
		return kubeerr.Wrap(err, op, d.name.String())
	}
	return d.deleteRest(ctx)
}

// untilDone repeats f after transient errors, with growing pauses, until ctx ends.
func untilDone(ctx context.Context, f func(context.Context) error) error {
	return wait.Reason(wait.Until(ctx, wait.Growing(minUndoInterval, maxUndoInterval), func() (bool, error) {
		err := f(ctx)
		return err == nil || !anyTransient(err), err
	}))
}

const (
	minUndoInterval = 100 * time.Millisecond
	maxUndoInterval = 5 * time.Second
)

// anyTransient reports whether any of the joined errors is transient.
func anyTransient(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // not errors.As: only this error's own parts
		return slices.ContainsFunc(joined.Unwrap(), anyTransient)
	}
	return failure.Transient(err)
}

// claimForRun marks every claim of the target as made by the run.
func (d *deletion) claimForRun(ctx context.Context) error {
	list, err := d.unmarked(ctx)
	if err != nil {
		return err
	}
	return parallel.Each(ctx, parallelRequests, list,
		func(ctx context.Context, _ int, claim corev1.PersistentVolumeClaim) error {
			return d.markClaim(ctx, claim.Namespace, claim.Name, d.run)
		})
}

func (c *Client) markClaim(ctx context.Context, namespace, name string, run cluster.RunID) error {
	api := c.core.PersistentVolumeClaims(namespace)
	return untilWritten(ctx, "mark claim", namespace+"/"+name, func() error {
		current, err := api.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		runmark.Put(current, run)
		_, err = api.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

func onlyThis(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

// gone treats a missing object as deleted.
func gone(op, target string, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return kubeerr.Wrap(err, op, target)
}
