package kube

import (
	"context"
	"errors"
	"fmt"
	"sort"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/blockvolume"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/workers"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// DeleteRestored deletes the objects marked with the run; missing ones are no error. Transient errors are retried
// until ctx ends.
func (c *Client) DeleteRestored(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	if run == "" {
		return failure.New(failure.Usage, "delete restored claims", name.String(), "the run is not named")
	}
	return untilDone(ctx, func(ctx context.Context) error { return c.deleteRemains(ctx, name, run) })
}

// Remaining lists the PVs that are marked with the run but were made by Kubernetes, which will not delete them.
func (c *Client) Remaining(ctx context.Context, name cluster.Name, run cluster.RunID) ([]string, error) {
	volumes, err := c.core.PersistentVolumes().List(ctx, runmark.Selector(run))
	if err != nil {
		return nil, kubeerr.Wrap(err, "list persistent volumes", name.String())
	}
	var out []string
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if runmark.MadeBy(pv, run) && !restored(pv) &&
			pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			out = append(out, fmt.Sprintf("%s (%s)", pv.Name, volumeOf(pv)))
		}
	}
	sort.Strings(out)
	return out, nil
}

// restored reports whether a restore made the PV for a restored volume, or had it filled, rather than Kubernetes for a
// claim of the cluster.
func restored(pv *corev1.PersistentVolume) bool { return restoredDisk(pv) || blockvolume.IsFilled(pv) }

// restoredDisk reports whether a restore made the PV for an EBS volume that it made.
func restoredDisk(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[operator1.RestoredVolumeKey] != ""
}

// deleteRemains deletes the claims and PVs marked with the run, apart from those that were filled: these are for
// removeFilled. It tries all of them, even after errors.
func (c *Client) deleteRemains(ctx context.Context, name cluster.Name, run cluster.RunID) error {
	claims, err := c.core.PersistentVolumeClaims(name.Namespace).List(ctx, runmark.Selector(run))
	if err != nil {
		return kubeerr.Wrap(err, "list claims", name.String())
	}
	volumes, err := c.core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return kubeerr.Wrap(err, "list persistent volumes", name.String())
	}
	byName := map[string]*corev1.PersistentVolume{}
	for i := range volumes.Items {
		byName[volumes.Items[i].Name] = &volumes.Items[i]
	}
	return errors.Join(
		parallel.Each(ctx, parallelRequests, claims.Items,
			func(ctx context.Context, _ int, claim corev1.PersistentVolumeClaim) error {
				if !runmark.MadeBy(&claim, run) || blockvolume.IsAsked(&claim) {
					return nil
				}
				return c.deleteClaim(ctx, &claim, byName[claim.Spec.VolumeName], run)
			}),
		parallel.Each(ctx, parallelRequests, volumes.Items,
			func(ctx context.Context, _ int, pv corev1.PersistentVolume) error {
				if !runmark.MadeBy(&pv, run) || blockvolume.IsFilled(&pv) || pv.Spec.ClaimRef == nil ||
					pv.Spec.ClaimRef.Namespace != name.Namespace {
					return nil
				}
				if !restored(&pv) { // deleted with its claim, unless the Operator has reset its policy meanwhile
					_, err := c.setPolicy(ctx, &pv, corev1.PersistentVolumeReclaimDelete, run)
					return err
				}
				return c.deleteVolume(ctx, &pv)
			}),
	)
}

// removeFilled removes what was filled for a run, as far as no claim of a cluster has it, with the Jobs that fill it.
func (c *Client) removeFilled(ctx context.Context, namespace string, run cluster.RunID) error {
	volumes, jobs := c.BlockVolumes(), c.Jobs()
	claims, err := volumes.Made(ctx, run, namespace)
	if err != nil {
		return err
	}
	left, err := volumes.Left(ctx, run, namespace)
	if claims = append(claims, left...); err != nil || len(claims) == 0 {
		return err // only a role that fills volumes may list Jobs
	}
	made, err := jobs.Made(ctx, run, namespace)
	if err != nil {
		return err
	}
	if err := parallel.Each(ctx, parallelRequests, made, func(ctx context.Context, _ int, job workers.Job) error {
		return jobs.Remove(ctx, job)
	}); err != nil {
		return err
	}
	return parallel.Each(ctx, parallelRequests, claims, func(ctx context.Context, _ int, c blockvolume.Claim) error {
		return volumes.Remove(ctx, c)
	})
}

// deleteClaim deletes a claim after setting its volume's reclaim policy: a volume made by a restore is retained, since
// the run deletes it itself. One made by Kubernetes for the claim is deleted with it: it is useless without the
// cluster, and nothing else would find it. The PV is marked with the run from then on.
func (c *Client) deleteClaim(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, run cluster.RunID,
) error {
	if pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID {
		policy := corev1.PersistentVolumeReclaimDelete
		if restored(pv) {
			policy = corev1.PersistentVolumeReclaimRetain
		}
		if _, err := c.setPolicy(ctx, pv, policy, run); err != nil {
			return err
		}
	}
	api := c.core.PersistentVolumeClaims(claim.Namespace)
	return gone("delete claim", claim.Name, api.Delete(ctx, claim.Name, onlyThis(claim.UID)))
}

// deleteVolume deletes a PV but keeps its EBS volume, which the run deletes itself. With any policy but Retain, such as
// the Operator sets from spec.pvReclaimPolicy, Kubernetes would delete that too, so the PV is deleted only while its
// policy is Retain.
func (c *Client) deleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	const op = "delete persistent volume"
	now, err := c.setPolicy(ctx, pv, corev1.PersistentVolumeReclaimRetain, cluster.RunID(pv.Annotations[runmark.Key]))
	if err != nil || now == nil {
		return err
	}
	this := onlyThis(now.UID)
	this.Preconditions.ResourceVersion = &now.ResourceVersion
	err = gone(op, pv.Name, c.core.PersistentVolumes().Delete(ctx, pv.Name, this))
	if failure.Is(err, failure.Conflict) { // changed since: read its policy again
		return failure.New(failure.Limited, op, pv.Name, "%w", err)
	}
	return err
}

// setPolicy sets the reclaim policy of a PV, marks it with the run, and returns the result; nil if it is gone.
func (c *Client) setPolicy(
	ctx context.Context, pv *corev1.PersistentVolume, policy corev1.PersistentVolumeReclaimPolicy, run cluster.RunID,
) (*corev1.PersistentVolume, error) {
	api := c.core.PersistentVolumes()
	var now *corev1.PersistentVolume
	err := untilWritten(ctx, "set reclaim policy "+string(policy), pv.Name, func() error {
		var err error
		if now, err = api.Get(ctx, pv.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if now.UID != pv.UID {
			now = nil
			return nil
		}
		if now.Spec.PersistentVolumeReclaimPolicy == policy && runmark.MadeBy(now, run) {
			return nil
		}
		now.Spec.PersistentVolumeReclaimPolicy = policy
		runmark.Put(now, run)
		now, err = api.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
	if failure.Is(err, failure.NotFound) {
		return nil, nil // as promised
	}
	if err != nil {
		return nil, err
	}
	return now, nil
}
