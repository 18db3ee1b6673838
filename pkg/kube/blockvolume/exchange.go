package blockvolume

import (
	"cmp"
	"context"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// exchangedKey is an annotation of the persistent volume of a claim whose exchange has begun, and of the one that
	// takes its place: the claim's UID.
	exchangedKey = "tisnap.io/exchanged"
	// claimKey is one of the persistent volume that takes its place, which is for another claim: the claim's name.
	claimKey = "tisnap.io/exchanged-claim"
)

// soonest is the first pause of an exchange: most of it is several writes, of which nothing has to be waited for.
const soonest = 20 * time.Millisecond

// IsFilled reports whether a persistent volume is that of a claim which a run asked for, or took its place. Besides its
// run's mark that distinguishes it from one that a restore made of an EBS volume.
func IsFilled(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[runmark.Key] != "" && (isBlock(pv.Spec.VolumeMode) || isExchanged(pv))
}

// IsAsked reports whether a run asked for an empty volume by the claim.
func IsAsked(claim *corev1.PersistentVolumeClaim) bool {
	_, asked := claim.Annotations[contentKey]
	return asked && claim.Annotations[runmark.Key] != ""
}

// isExchanged reports whether a persistent volume took the place of another one.
func isExchanged(pv *corev1.PersistentVolume) bool {
	return pv.Annotations[exchangedKey] != "" && !isBlock(pv.Spec.VolumeMode)
}

// Exchange puts a persistent volume of the same disk, with a file system, in the place of a filled claim and its
// volume, and returns it once both are gone. The wanted one has its name, labels, annotations, class, file system and
// mount options, and is for the claim that it names, which cannot be bound to it before Free. Whenever it ends, the
// same call continues it, and Remove undoes it. At any time at least one of the two persistent volumes is there, and
// while both are, both have the policy Retain. A claim that a pod uses is a Conflict, and so is a disk that has another
// persistent volume. It waits until ctx ends: give it a deadline.
func (c *Claims) Exchange(
	ctx context.Context, claim Claim, want *corev1.PersistentVolume,
) (made *corev1.PersistentVolume, err error) {
	const op = "exchange volume"
	if claim.UID == "" || claim.Run == "" || want.Spec.ClaimRef == nil || want.Spec.CSI == nil {
		return nil, failure.New(failure.Usage, op, claim.String(), "its UID, its run and its purpose have to be known")
	}
	err = wait.Until(ctx, wait.Growing(soonest, max(c.pace()(0), soonest)), func() (_ bool, err error) {
		made, err = c.exchange(ctx, claim, want)
		return !failure.Transient(err), err
	})
	return made, failure.Annotate(wait.Reason(err), op, claim.String())
}

// exchange is one try of Exchange, which is Limited until the old ones are gone.
func (c *Claims) exchange(
	ctx context.Context, claim Claim, want *corev1.PersistentVolume,
) (*corev1.PersistentVolume, error) {
	const op = "exchange volume"
	s, err := c.stand(ctx, claim, op)
	if err == nil {
		err = s.exchangeable(claim, op)
	}
	if err != nil {
		return nil, err
	}
	if s.claim != nil {
		if err := c.noPod(ctx, claim, op, true); err != nil {
			return nil, err
		}
	}
	if err := c.retainBoth(ctx, s, claim); err != nil {
		return nil, err
	}
	switch {
	case s.old == nil && s.claim == nil:
		return s.made, nil
	case s.made == nil:
		return nil, c.make(ctx, s, claim, want)
	case s.claim != nil && s.claim.DeletionTimestamp != nil, s.claim == nil && s.old.DeletionTimestamp != nil:
		return nil, still(op, claim, "it is being deleted")
	case s.claim != nil:
		return nil, c.drop(ctx, claim)
	}
	return nil, c.dropVolume(ctx, s.old, claim)
}

// stand is how an exchange stands: the claim, its own volume, and the one that takes its place, nil if they are not
// there; and another persistent volume of the disk.
type stand struct {
	claim     *corev1.PersistentVolumeClaim
	old, made *corev1.PersistentVolume
	other     string
}

// exchangeable reports why the volume must not be exchanged; nil if it may be, or has been.
func (s *stand) exchangeable(claim Claim, op string) error {
	switch {
	case s.old == nil && s.made == nil:
		return failure.New(failure.NotFound, op, claim.String(), "its volume is gone")
	case s.old != nil && (s.old.Spec.CSI == nil || !isBlock(s.old.Spec.VolumeMode)):
		return failure.New(failure.Unready, op, claim.String(),
			"persistent volume %s is not a block volume of a CSI driver", s.old.Name)
	case s.other != "":
		return failure.New(failure.Conflict, op, claim.String(),
			"its disk is that of persistent volume %s, too", s.other).WithHint(keepHint)
	case s.claim == nil && s.made == nil:
		return failure.New(failure.NotFound, op, claim.String(), "someone deleted it")
	}
	return nil
}

// stand reads it. A claim that is not the run's is a Conflict.
func (c *Claims) stand(ctx context.Context, claim Claim, op string) (s stand, err error) {
	if s.claim, err = c.get(ctx, claim, op); err != nil {
		return s, err
	}
	list, err := c.core.PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s, kubeerr.Wrap(err, "find volume of claim", claim.String())
	}
	for i := range list.Items {
		switch pv := &list.Items[i]; {
		case isExchanged(pv) && pv.Annotations[exchangedKey] == claim.UID && runmark.MadeBy(pv, claim.Run):
			s.made = pv
		case boundTo(pv, claim):
			s.old = pv
		}
	}
	if pv := cmp.Or(s.old, s.made); pv != nil {
		s.other = sameDisk(list.Items, pv, s.made)
	}
	if s.claim != nil && !runmark.MadeBy(s.claim, claim.Run) {
		return s, failure.New(failure.Conflict, op, claim.String(), "it is not of run %s", claim.Run).
			WithHint("kubectl -n %s get pvc %s -o yaml: whose is it?", claim.Namespace, claim.Name)
	}
	return s, nil
}

// retainBoth keeps the disk whatever becomes of the claim and of either persistent volume. It is Limited while the one
// that takes the claim's place is being deleted: nothing else goes as long as that may not stay.
func (c *Claims) retainBoth(ctx context.Context, s stand, claim Claim) error {
	if s.old != nil {
		if err := c.retain(ctx, s.old, claim); err != nil {
			return err
		}
	}
	if s.made == nil {
		return nil
	}
	if s.made.DeletionTimestamp != nil {
		return still("exchange volume", claim, "persistent volume "+s.made.Name+" is being deleted")
	}
	return c.own(ctx, s.made, claim, corev1.PersistentVolumeReclaimRetain)
}

// retain keeps the disk whatever becomes of the claim, and notes that the run did so.
func (c *Claims) retain(ctx context.Context, old *corev1.PersistentVolume, claim Claim) error {
	if old.Annotations[exchangedKey] == claim.UID {
		return c.own(ctx, old, claim, corev1.PersistentVolumeReclaimRetain)
	}
	metav1.SetMetaDataAnnotation(&old.ObjectMeta, exchangedKey, claim.UID)
	return c.update(ctx, old, claim, corev1.PersistentVolumeReclaimRetain)
}

// make makes the persistent volume that takes the claim's place.
func (c *Claims) make(ctx context.Context, s stand, claim Claim, want *corev1.PersistentVolume) error {
	const op = "exchange volume"
	if s.claim.Annotations[filledKey] == "" {
		return failure.New(failure.Unready, op, claim.String(), "it is not filled")
	}
	if err := isNew(s.old, s.claim, op, "begin another run by --run-id"); err != nil {
		return err
	}
	_, err := c.core.PersistentVolumes().Create(ctx, exchanged(want, s.old, claim), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return failure.New(failure.Conflict, op, claim.String(), "persistent volume %s is there already", want.Name).
			WithHint("kubectl get pv %s -o yaml: whose is it?", want.Name)
	}
	if err != nil {
		return kubeerr.Wrap(err, op, want.Name)
	}
	return still(op, claim, "it is there still")
}

// exchanged is the wanted persistent volume with the disk of the old one. It is reserved for the claim that it is for
// with the UID of the one that was filled: so no claim is bound to it, and it is not reclaimed as long as it is
// retained.
func exchanged(want, old *corev1.PersistentVolume, claim Claim) *corev1.PersistentVolume {
	pv, mode := want.DeepCopy(), corev1.PersistentVolumeFilesystem
	csi := old.Spec.CSI.DeepCopy()
	csi.FSType = want.Spec.CSI.FSType
	pv.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: csi}
	pv.Spec.Capacity, pv.Spec.NodeAffinity = old.Spec.Capacity, old.Spec.NodeAffinity
	pv.Spec.VolumeMode, pv.Spec.PersistentVolumeReclaimPolicy = &mode, corev1.PersistentVolumeReclaimRetain
	pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion = uidOf(claim), ""
	pv.Annotations = maps.Clone(pv.Annotations)
	maps.DeleteFunc(pv.Annotations, func(key, _ string) bool { return ofDriver(key) })
	for key, value := range old.Annotations {
		if ofDriver(key) { // without them the driver would not delete the disk when it is to
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, key, value)
		}
	}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, exchangedKey, claim.UID)
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, claimKey, claim.Name)
	runmark.Put(pv, claim.Run)
	return pv
}

// ofDriver reports whether an annotation is by the provisioner, for the deletion of the disk.
func ofDriver(key string) bool {
	return key == "pv.kubernetes.io/provisioned-by" || key == "pv.kubernetes.io/migrated-to" ||
		strings.HasPrefix(key, "volume.kubernetes.io/provisioner-deletion-secret-")
}

// dropVolume deletes a persistent volume as it is, which is retained: its disk stays.
func (c *Claims) dropVolume(ctx context.Context, pv *corev1.PersistentVolume, claim Claim) error {
	const op = "exchange volume"
	if pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		return still(op, claim, "its volume changes")
	}
	this := onlyThis(pv.UID)
	this.Preconditions.ResourceVersion = &pv.ResourceVersion
	err := c.core.PersistentVolumes().Delete(ctx, pv.Name, this)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return kubeerr.Wrap(err, op, pv.Name)
	}
	return still(op, claim, "persistent volume "+pv.Name+" is being deleted")
}

// Free lets the claim that an exchanged volume is for be bound to it. It returns the volume as it is then.
func (c *Claims) Free(ctx context.Context, made *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	const op = "free volume"
	api, now := c.core.PersistentVolumes(), made
	err := wait.Until(ctx, c.pace(), func() (_ bool, err error) {
		if now, err = api.Get(ctx, made.Name, metav1.GetOptions{}); err != nil {
			err = kubeerr.Wrap(err, op, made.Name)
			return !failure.Transient(err), err
		}
		of := now.Annotations[exchangedKey]
		if now.UID != made.UID || of == "" || now.Spec.ClaimRef == nil {
			return true, failure.New(failure.Conflict, op, made.Name, "it is another one by now")
		}
		if string(now.Spec.ClaimRef.UID) != of {
			return true, nil
		}
		now.Spec.ClaimRef.UID, now.Spec.ClaimRef.ResourceVersion = "", ""
		now, err = api.Update(ctx, now, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // changed since it was read
			return false, err
		}
		err = kubeerr.Wrap(err, op, made.Name)
		return err == nil || !failure.Transient(err), err
	})
	return now, failure.Annotate(wait.Reason(err), op, made.Name)
}

// undoExchange is the part of Remove for a volume that was exchanged, wholly or not. The new persistent volume goes
// first, and keeps the disk, as long as the old one is there; without that it takes its disk along. One that a claim
// has by now is a Conflict.
func (c *Claims) undoExchange(ctx context.Context, s stand, claim Claim) error {
	const op = "remove claim"
	pv := s.made
	live, err := c.reserved(ctx, pv)
	switch {
	case err != nil:
		return err
	case live:
		return failure.New(failure.Conflict, op, claim.String(), "its volume is that of claim %s/%s by now",
			pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name).WithHint("delete that claim if it is not needed")
	case pv.DeletionTimestamp != nil:
		return still(op, claim, "persistent volume "+pv.Name+" is being deleted")
	case s.old != nil:
		if err := c.own(ctx, pv, claim, corev1.PersistentVolumeReclaimRetain); err != nil {
			return err
		}
		return c.dropVolume(ctx, pv, claim)
	case s.claim != nil:
		return c.drop(ctx, claim)
	}
	if pv.Spec.ClaimRef.UID == "" { // available: only a released one is reclaimed
		pv.Spec.ClaimRef.UID = uidOf(claim)
		pv.Spec.PersistentVolumeReclaimPolicy = "" // so that it is written
	}
	if err := c.own(ctx, pv, claim, corev1.PersistentVolumeReclaimDelete); err != nil {
		return err
	}
	return still(op, claim, "its driver has not deleted volume "+pv.Name)
}

// reserved reports whether the claim that an exchanged volume is for is there, and bound to it or about to be.
func (c *Claims) reserved(ctx context.Context, pv *corev1.PersistentVolume) (bool, error) {
	of := pv.Spec.ClaimRef
	found, err := c.core.PersistentVolumeClaims(of.Namespace).Get(ctx, of.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, kubeerr.Wrap(err, "find claim", of.Namespace+"/"+of.Name)
	case of.UID == "": // the binder may choose it for a claim that names none
		return found.Spec.VolumeName == pv.Name || found.Spec.VolumeName == "", nil
	case found.UID == of.UID:
		return true, nil
	}
	return found.Spec.VolumeName == pv.Name && found.DeletionTimestamp == nil, nil // it waits for Free
}
