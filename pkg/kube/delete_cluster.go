package kube

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// DeleteCluster takes a target away again: the TidbCluster, then its pods and claims, then the run's PVs,
// whose policy is Retain, so that the EBS volumes stay. It returns when the API server has accepted the
// deletions; callers who need the names again poll Cluster and Claims. A target that is gone already is no
// error, and what an interrupted call left behind is deleted.
//
// PVs that Kubernetes provisioned, those of PD, are left to their reclaim policy.
func (c *Client) DeleteCluster(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	const op = "delete tidbcluster"
	if run == "" {
		return failure.New(failure.Usage, op, name.String(), "the run is not named")
	}
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
	// Claims that the StatefulSets made do not name the run. Once the cluster is gone nothing else would
	// distinguish them from those of an earlier cluster of the name.
	if err := c.claimForRun(ctx, name, run); err != nil {
		return err
	}
	uid := found.GetUID()
	err = api.Delete(ctx, name.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) {
		return wrap(err, op, name.String())
	}
	if err := c.deletePods(ctx, name); err != nil {
		return err
	}
	return c.deleteRemains(ctx, name, run)
}

// claimForRun marks every claim of the cluster as made by the run.
func (c *Client) claimForRun(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	api := c.core.CoreV1().PersistentVolumeClaims(name.Namespace)
	list, err := api.List(ctx, instanceSelector(name))
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
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
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
	return wrap(err, "mark claim", namespace+"/"+name)
}

// deletePods deletes the pods of all components, so that the claims are released at once.
func (c *Client) deletePods(ctx context.Context, name cluster.Name) error {
	list, err := c.core.CoreV1().Pods(name.Namespace).List(ctx, instanceSelector(name))
	if err != nil {
		return wrap(err, "list pods", name.String())
	}
	return c.deleteEachPod(ctx, list.Items)
}

// deleteRemains deletes the claims and PVs that carry the run.
func (c *Client) deleteRemains(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	byRun := metav1.ListOptions{LabelSelector: RunKey + "=" + slug(string(run))}
	claims, err := c.core.CoreV1().PersistentVolumeClaims(name.Namespace).List(ctx, byRun)
	if err != nil {
		return wrap(err, "list claims", name.String())
	}
	volumes, err := c.core.CoreV1().PersistentVolumes().List(ctx, byRun)
	if err != nil {
		return wrap(err, "list persistent volumes", name.String())
	}
	return errors.Join(
		parallel.Each(ctx, parallelRequests, claims.Items, func(ctx context.Context, _ int, claim corev1.PersistentVolumeClaim) error {
			if !madeBy(&claim, run) || claim.Labels[instanceLabel] != name.Name {
				return nil
			}
			api := c.core.CoreV1().PersistentVolumeClaims(claim.Namespace)
			return gone("delete claim", claim.Name, api.Delete(ctx, claim.Name, onlyThis(claim.UID)))
		}),
		parallel.Each(ctx, parallelRequests, volumes.Items, func(ctx context.Context, _ int, pv corev1.PersistentVolume) error {
			if !madeBy(&pv, run) || !reservedFor(&pv, name) {
				return nil
			}
			return c.deleteVolume(ctx, &pv)
		}),
	)
}

// reservedFor reports whether the PV belongs to the cluster: a run has one target, but names are cheap to check.
func reservedFor(pv *corev1.PersistentVolume, name cluster.Name) bool {
	ref := pv.Spec.ClaimRef
	return pv.Labels[instanceLabel] == name.Name && ref != nil && ref.Namespace == name.Namespace
}

// deleteVolume deletes a PV and keeps its EBS volume: with any policy but Retain, which somebody would have
// set since, Kubernetes would delete that too.
func (c *Client) deleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return failure.New(failure.Conflict, "delete persistent volume", pv.Name,
			"its reclaim policy is %s: the ebs volume would be deleted with it", pv.Spec.PersistentVolumeReclaimPolicy).
			WithHint("set the policy of %s to Retain", pv.Name)
	}
	return gone("delete persistent volume", pv.Name, c.core.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, onlyThis(pv.UID)))
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
