package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
)

// Leftover reads the target's object, and the claims and PVs marked with the run.
func (c *Client) Leftover(ctx context.Context, name cluster.Name, run cluster.RunID) (RestoreLeftover, error) {
	out := RestoreLeftover{Cluster: name, Run: run}
	if run == "" {
		return out, failure.New(failure.Usage, "find what a restore left", name.String(), "the run is not named")
	}
	of, o, err := c.locate(ctx, name)
	own := func(*corev1.PersistentVolumeClaim) bool { return false }
	switch {
	case err != nil:
		return out, err
	case o == nil:
		out.Absent = true
		if out.Strays, err = c.strays(ctx, name); err != nil {
			return out, err
		}
	case runmark.MadeBy(o, run):
		out.UID, out.Serves = string(o.GetUID()), of.serves(o)
		own = func(claim *corev1.PersistentVolumeClaim) bool { return of.claimedFor(o, claim) }
	default:
		out.Serves = of.mayUse(o)
	}
	if out.Claims, out.Bound, err = c.leftClaims(ctx, name, run, own); err != nil {
		return out, err
	}
	volumes, err := c.core.PersistentVolumes().List(ctx, runmark.Selector(run))
	if err != nil {
		return out, kubeerr.Wrap(err, "list persistent volumes", name.String())
	}
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if !runmark.MadeBy(pv, run) || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != name.Namespace {
			continue
		}
		out.Volumes = append(out.Volumes, pv.Name)
		if id := volumeOf(pv); id != "" && restoredDisk(pv) {
			out.Handles = append(out.Handles, id)
		}
	}
	slices.Sort(out.Volumes)
	return out, nil
}

// leftClaims returns the claims marked with the run, and those that the run's own cluster has made. bound is
// RestoreLeftover.Bound.
func (c *Client) leftClaims(
	ctx context.Context, name cluster.Name, run cluster.RunID, own func(*corev1.PersistentVolumeClaim) bool,
) (left []string, bound map[string]string, err error) {
	list, err := c.core.PersistentVolumeClaims(name.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, kubeerr.Wrap(err, "list claims", name.String())
	}
	bound = map[string]string{}
	for _, claim := range list.Items {
		bound[claim.Name] = claim.Spec.VolumeName
	}
	return claimNames(slices.DeleteFunc(list.Items, func(pvc corev1.PersistentVolumeClaim) bool {
		return !runmark.MadeBy(&pvc, run) && !own(&pvc)
	})), bound, nil
}

// DeleteLeftover deletes exactly the version of the object that it checked: if it changes in between, it is checked
// again.
func (c *Client) DeleteLeftover(ctx context.Context, found RestoreLeftover) error {
	const op = "delete what a restore left"
	name, run := found.Cluster, found.Run
	if run == "" {
		return failure.New(failure.Usage, op, name.String(), "the run is not named")
	}
	r := removal{Client: c, name: name, run: run}
	return untilDone(ctx, func(ctx context.Context) error {
		of, tc, err := c.locate(ctx, name)
		switch {
		case err != nil:
			return err
		case tc == nil:
			if err := r.deleteRest(ctx); err != nil {
				return err
			}
			return c.removeFilled(ctx, name.Namespace, run)
		case !runmark.MadeBy(tc, run) && found.UID != "", runmark.MadeBy(tc, run) && string(tc.GetUID()) != found.UID:
			return failure.New(failure.Conflict, op, name.String(), "the %s was recreated since", tc.GetKind())
		case !runmark.MadeBy(tc, run):
			if why := of.mayUse(tc); why != "" {
				return failure.New(failure.Conflict, op, name.String(), "%s", why)
			}
			if err := c.deleteRemains(ctx, name, run); err != nil {
				return err
			}
			return c.removeFilled(ctx, name.Namespace, run)
		}
		if why := of.serves(tc); why != "" {
			return failure.New(failure.Conflict, op, name.String(), "%s", why)
		}
		if err := r.deleteThis(ctx, of, tc); err != nil {
			return err
		}
		return c.removeFilled(ctx, name.Namespace, run)
	})
}

// asItIs allows the deletion of only this version of the object.
func asItIs(o *unstructured.Unstructured) metav1.DeleteOptions {
	options, version := onlyThis(o.GetUID()), o.GetResourceVersion()
	options.Preconditions.ResourceVersion = &version
	return options
}

// MadeForTarget lists the EBS volumes bound to the cluster's claims that were not made by a restore: PD's.
func (c *Client) MadeForTarget(ctx context.Context, name cluster.Name, run cluster.RunID) ([]cluster.VolumeID, error) {
	of, tc, err := c.locate(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case tc == nil:
		return nil, c.noCluster(ctx, name)
	case !runmark.MadeBy(tc, run):
		return nil, runmark.CheckMade(tc, run, "list volumes", name.String())
	}
	claims, err := c.core.PersistentVolumeClaims(name.Namespace).List(ctx, of.belongs(tc))
	if err != nil {
		return nil, kubeerr.Wrap(err, "list claims", name.String())
	}
	var out []cluster.VolumeID
	for _, claim := range claims.Items {
		if runmark.MadeBy(&claim, run) || claim.Spec.VolumeName == "" {
			continue
		}
		pv, err := c.core.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return nil, kubeerr.Wrap(err, "read persistent volume", claim.Spec.VolumeName)
		}
		if id := volumeOf(pv); id != "" && !restored(pv) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}
