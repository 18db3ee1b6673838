package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// deletion2 removes a target of TiDB Operator 2.x.
type deletion2 struct {
	deletion
	g generation2
}

func (g generation2) remover(name cluster.Name, run cluster.RunID) remover {
	return &deletion2{deletion: deletion{Client: g.Client, name: name, run: run}, g: g}
}

// deleteThis deletes the Cluster first: then the Operator drops groups, instances, pods and claims at once. Without
// that, it would wait for ever until PD has moved the data of each store away. It must have taken notice of the
// Cluster, by its finalizer, or the Cluster would be gone and the rest would stay. On a paused one, as it is until all
// of the target is there, it does not act: then nothing has a pod, and all is deleted here, the Cluster last.
func (d *deletion2) deleteThis(ctx context.Context, found *unstructured.Unstructured) error {
	const op = "delete cluster"
	d.target = found
	target, seen := d.name.String(), len(found.GetFinalizers()) > 0
	refuse := func(kind failure.Kind, text string) *failure.Error { return failure.New(kind, op, target, "%s", text) }
	switch {
	case operator2.Paused(found) && seen:
		return refuse(failure.Conflict, "it was paused, so that TiDB Operator deletes nothing of it").
			WithHint("end the pause: kubectl -n %s patch clusters.core.pingcap.com %s --type merge -p "+
				`'{"spec":{"paused":false}}'`, d.name.Namespace, d.name.Name)
	case operator2.Paused(found):
		if err := d.deleteMade(ctx); err != nil {
			return err
		}
	case !seen:
		return refuse(failure.Limited, "TiDB Operator has not taken notice of it, which is to delete its parts").
			WithHint("check that TiDB Operator runs; then run it again")
	default:
		if err := d.keepVolumes(ctx); err != nil {
			return err
		}
	}
	background := metav1.DeletePropagationBackground
	this := asItIs(found)
	this.PropagationPolicy = &background
	err := d.g.resource(found).Delete(ctx, d.name.Name, this)
	switch {
	case apierrors.IsConflict(err): // changed since: read it again
		return failure.New(failure.Limited, op, target, "%w", err)
	case err != nil && !apierrors.IsNotFound(err):
		return kubeerr.Wrap(err, op, target)
	}
	return d.deleteRest(ctx)
}

func (d *deletion2) deleteRest(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.clusterGone, d.deleteMade, d.podsGone,
		func(ctx context.Context) error { return d.deleteRemains(ctx, d.name, d.run) },
		d.remainsGone,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keepVolumes prepares the claims for their deletion by the Operator: all are marked as the run's, PVs of restored
// volumes are retained, and the others go with their claims.
func (d *deletion2) keepVolumes(ctx context.Context) error {
	claims, err := d.core.PersistentVolumeClaims(d.name.Namespace).List(ctx, operator2.Of(d.name.Name))
	if err != nil {
		return kubeerr.Wrap(err, "list claims", d.name.String())
	}
	volumes, err := d.core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return kubeerr.Wrap(err, "list persistent volumes", d.name.String())
	}
	of := map[string]bool{} // by claim
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !runmark.MadeBy(claim, d.run) && !d.g.claimedFor(d.target, claim) {
			continue
		}
		of[string(claim.UID)] = true
		if runmark.MadeBy(claim, d.run) {
			continue
		}
		if err := d.markClaim(ctx, claim.Namespace, claim.Name, d.run); err != nil {
			return err
		}
	}
	return parallel.Each(ctx, parallelRequests, volumes.Items,
		func(ctx context.Context, _ int, pv corev1.PersistentVolume) error {
			policy := corev1.PersistentVolumeReclaimRetain
			switch {
			case restored(&pv):
				if !d.made(&pv) {
					return nil
				}
			case pv.Spec.ClaimRef == nil || !of[string(pv.Spec.ClaimRef.UID)]:
				return nil
			default:
				policy = corev1.PersistentVolumeReclaimDelete
			}
			_, err := d.setPolicy(ctx, &pv, policy, d.run)
			return err
		})
}

// clusterGone waits for the Cluster's finalizer, which the Operator removes when its groups are gone.
func (d *deletion2) clusterGone(ctx context.Context) error {
	found, err := d.g.get(ctx, d.name)
	switch {
	case err != nil:
		return err
	case found == nil:
		return nil
	case d.target == nil || found.GetUID() != d.target.GetUID():
		return runmark.CheckMade(found, "", "delete cluster", d.name.String()) // it was recreated
	}
	return d.still("Cluster", []string{d.name.Name})
}

// deleteMade deletes the instances and groups that the run made and that the Operator does not delete, as it does not
// act on their Cluster: that is paused, or gone. It is not called for any other.
func (d *deletion2) deleteMade(ctx context.Context) error {
	all, err := d.g.objects(ctx, d.name)
	if err != nil {
		return err
	}
	return parallel.Each(ctx, parallelRequests, append(all.TiKVs, all.Groups...),
		func(ctx context.Context, _ int, o unstructured.Unstructured) error {
			if !runmark.MadeBy(&o, d.run) {
				return nil
			}
			return d.deleteObject(ctx, &o)
		})
}

// deleteObject deletes an object without its finalizers.
func (d *deletion2) deleteObject(ctx context.Context, o *unstructured.Unstructured) error {
	op, target := "delete "+o.GetKind(), o.GetNamespace()+"/"+o.GetName()
	if len(o.GetFinalizers()) > 0 {
		o.SetFinalizers(nil)
		_, err := d.g.resource(o).Update(ctx, o, metav1.UpdateOptions{})
		switch {
		case apierrors.IsConflict(err): // changed since: read it again
			return failure.New(failure.Limited, op, target, "%w", err)
		case err != nil && !apierrors.IsNotFound(err):
			return kubeerr.Wrap(err, op, target)
		}
	}
	err := d.g.resource(o).Delete(ctx, o.GetName(), onlyThis(o.GetUID()))
	if apierrors.IsConflict(err) { // another one of the same name
		return nil
	}
	return gone(op, target, err)
}

// podsGone waits for the cluster's pods, which use its claims.
func (d *deletion2) podsGone(ctx context.Context) error {
	list, err := d.core.Pods(d.name.Namespace).List(ctx, operator2.Of(d.name.Name))
	if err != nil {
		return kubeerr.Wrap(err, "list pods", d.name.String())
	}
	return d.still("pod", names(list.Items))
}
