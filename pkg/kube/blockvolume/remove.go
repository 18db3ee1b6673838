package blockvolume

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Made are the run's claims in a namespace. What it has restored there as a cluster's is not among them.
func (c *Claims) Made(ctx context.Context, run cluster.RunID, namespace string) (made []Claim, err error) {
	list, err := c.core.PersistentVolumeClaims(namespace).List(ctx, runmark.Selector(run))
	if err != nil {
		return nil, kubeerr.Wrap(err, "find claims of run", string(run))
	}
	for i := range list.Items {
		one := &list.Items[i]
		if _, asked := one.Annotations[contentKey]; asked && runmark.MadeBy(one, run) {
			made = append(made, Claim{namespace, one.Name, string(one.UID), run, one.Annotations[filledKey]})
		}
	}
	return made, nil
}

// Left are the run's claims in a namespace that are gone, or in whose place there are others by now, while their
// volumes are there: those that are filled and carry the run's mark. Remove waits for such a volume to be deleted.
func (c *Claims) Left(ctx context.Context, run cluster.RunID, namespace string) ([]Claim, error) {
	const op = "find volumes of run"
	list, err := c.core.PersistentVolumes().List(ctx, runmark.Selector(run))
	if err != nil {
		return nil, kubeerr.Wrap(err, op, string(run))
	}
	var left []Claim
	for i := range list.Items {
		pv := &list.Items[i]
		of := pv.Spec.ClaimRef
		if !runmark.MadeBy(pv, run) || !IsFilled(pv) || of == nil || of.Namespace != namespace {
			continue
		}
		claim := Claim{namespace, of.Name, string(of.UID), run, ""}
		if isExchanged(pv) {
			claim.UID, claim.Name = pv.Annotations[exchangedKey], cmp.Or(pv.Annotations[claimKey], of.Name)
		}
		has, err := c.hasClaim(ctx, pv, claim)
		if err != nil {
			return nil, err
		}
		if !has && !slices.ContainsFunc(left, func(c Claim) bool { return c.UID == claim.UID }) {
			left = append(left, claim)
		}
	}
	return left, nil
}

// hasClaim reports whether the run's claim of a volume is there, or the one that it is for once it is exchanged.
func (c *Claims) hasClaim(ctx context.Context, pv *corev1.PersistentVolume, claim Claim) (bool, error) {
	if isExchanged(pv) {
		if live, err := c.reserved(ctx, pv); live || err != nil {
			return live, err
		}
	}
	found, err := c.get(ctx, claim, "find volumes of run")
	return found != nil, err
}

// Remove deletes the claim, with its volume, and returns once both are gone. A claim of that name with another UID is
// another one, which stays; one that is marked for another run by now is a Conflict, and so is one that is not Unused.
// A claim that is gone is no error, but a Conflict if its volume is retained. It waits until ctx ends: give it a
// deadline.
func (c *Claims) Remove(ctx context.Context, claim Claim) error {
	const op = "remove claim"
	if claim.UID == "" || claim.Run == "" {
		return failure.New(failure.Usage, op, claim.String(), "its UID and its run have to be known")
	}
	asked := false
	err := wait.Until(ctx, c.pace(), func() (_ bool, err error) {
		if asked {
			found, err := c.get(ctx, claim, op)
			switch {
			case err != nil:
				return !failure.Transient(err), err
			case found != nil && found.DeletionTimestamp != nil:
				return false, still(op, claim, "a pod uses it") // all was checked before
			}
		}
		asked, err = c.remove(ctx, claim)
		return !failure.Transient(err), err
	})
	return failure.Annotate(wait.Reason(err), op, claim.String())
}

// remove is one try of Remove, which is Limited until both are gone, and whether the claim is being deleted. Whatever
// the class's policy is, the volume goes with its claim: it has nothing that the archive does not have, and nothing
// else would find it.
func (c *Claims) remove(ctx context.Context, claim Claim) (asked bool, err error) {
	const op = "remove claim"
	s, err := c.unused(ctx, claim)
	found, pv := s.claim, s.old
	switch {
	case err != nil:
		return false, err
	case s.made != nil:
		return false, c.undoExchange(ctx, s, claim)
	case found == nil && pv == nil:
		return false, nil
	case found == nil && pv.Annotations[exchangedKey] == claim.UID: // the run itself has retained it
		if err := c.own(ctx, pv, claim, corev1.PersistentVolumeReclaimDelete); err != nil {
			return false, err
		}
		return false, still(op, claim, "its driver has not deleted volume "+pv.Name)
	case found == nil && pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return false, failure.New(failure.Conflict, op, claim.String(),
			"someone deleted it, and its volume %s is retained", pv.Name).
			WithHint("keep its disk by: kubectl delete pv %s; or delete it by its policy Delete", pv.Name)
	case found == nil:
		return false, still(op, claim, "its driver has not deleted volume "+pv.Name)
	}
	if pv != nil {
		if err := c.own(ctx, pv, claim, corev1.PersistentVolumeReclaimDelete); err != nil {
			return false, err
		}
	}
	if found.DeletionTimestamp != nil {
		return true, still(op, claim, "a pod uses it")
	}
	err = c.drop(ctx, claim)
	return failure.Is(err, failure.Limited), err
}

// drop deletes the claim, and is Limited then.
func (c *Claims) drop(ctx context.Context, claim Claim) error {
	const op = "remove claim"
	err := c.core.PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, onlyThis(uidOf(claim)))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return kubeerr.Wrap(err, op, claim.String())
	}
	return still(op, claim, "it is being deleted")
}

func onlyThis(uid types.UID) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}
}

func uidOf(claim Claim) types.UID { return types.UID(claim.UID) }

// Unused checks that a claim is its run's, and its volume new and used by nothing else: another persistent volume of
// the same disk is a Conflict, and so is a pod that is not the run's. What uses the disk past this Kubernetes cluster
// is not seen. A claim that is gone is no error, unless another persistent volume has the disk that is left.
func (c *Claims) Unused(ctx context.Context, claim Claim) error {
	_, err := c.unused(ctx, claim)
	return err
}

// unused is Unused; it returns the claim and its volumes.
func (c *Claims) unused(ctx context.Context, claim Claim) (stand, error) {
	const op = "remove claim"
	s, err := c.stand(ctx, claim, op)
	switch {
	case err != nil:
		return s, err
	case s.other != "": // it may be in use without the claim, too
		return s, failure.New(failure.Conflict, op, claim.String(),
			"its disk is that of persistent volume %s, too", s.other).WithHint(keepHint)
	case s.claim == nil:
		return s, nil
	}
	if s.old != nil {
		if err := isNew(s.old, s.claim, op, "delete the claim by kubectl if its volume is not needed"); err != nil {
			return s, err
		}
	}
	return s, c.noPod(ctx, claim, op, false)
}

const keepHint = "keep the disk: set its persistent volume's reclaim policy to Retain, and delete the claim and that"

// noPod checks that no pod has the claim, apart from those of the run's Job, unless these count, too.
func (c *Claims) noPod(ctx context.Context, claim Claim, op string, jobs bool) error {
	list, err := c.core.Pods(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return kubeerr.Wrap(err, "find pods of claim", claim.String())
	}
	for i := range list.Items {
		pod := &list.Items[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if ended || !jobs && runmark.MadeBy(pod, claim.Run) {
			continue
		}
		if slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		}) {
			return failure.New(failure.Conflict, op, claim.String(), "pod %s uses it", pod.Name).
				WithHint(keepHint)
		}
	}
	return nil
}

// sameDisk returns another persistent volume of the same disk, apart from the one that takes its place; "" without one.
func sameDisk(all []corev1.PersistentVolume, pv, apart *corev1.PersistentVolume) string {
	for i := range all {
		one := &all[i]
		if one.UID == pv.UID || apart != nil && one.UID == apart.UID || one.Spec.CSI == nil || pv.Spec.CSI == nil {
			continue
		}
		if is, of := one.Spec.CSI, pv.Spec.CSI; is.Driver == of.Driver && is.VolumeHandle == of.VolumeHandle {
			return one.Name
		}
	}
	return ""
}

// still is the error while something is still to be done.
func still(op string, claim Claim, why string) error {
	return failure.New(failure.Limited, op, claim.String(), "%s", why).
		WithHint("kubectl -n %s describe pvc %s", claim.Namespace, claim.Name)
}
