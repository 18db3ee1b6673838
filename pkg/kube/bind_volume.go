package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// availableWait is how long a PV may take until it is Available; the real one takes less than a second.
	availableWait     = 10 * time.Second
	availableInterval = 100 * time.Millisecond
)

// bindVolume creates the PV, reserved for the claim, waits until it is Available, and creates the PVC that names it: an
// earlier claim would stay Pending until the binder's next sync, up to 15 s later. It does not wait for the binding.
func (c generation1) bindVolume(ctx context.Context, v RestoredVolume) error {
	const op = "bind volume"
	pvc, pv, err := c.restoredFor(ctx, v)
	if err != nil {
		return err
	}
	for target, o := range map[string]any{pv.Name: pv, pvc.Name: pvc} {
		if err := checkSize(o, target); err != nil {
			return err
		}
	}
	madePV, err := c.ensureVolume(ctx, pv, v)
	if err == nil && v.Filled != nil {
		madePV, err = c.BlockVolumes().Free(ctx, madePV)
	}
	if err != nil {
		return failure.Annotate(err, op, string(v.Volume))
	}
	if err := c.awaitAvailable(ctx, madePV); err != nil {
		return failure.Annotate(err, op, string(v.Volume))
	}
	madePVC, err := c.ensureClaim(ctx, pvc, v)
	if err != nil {
		return failure.Annotate(err, op, string(v.Volume))
	}
	return failure.Annotate(c.freeVolume(ctx, madePV, madePVC), op, string(v.Volume))
}

// restoredObjects decodes the source's objects and derives the target's from them.
func restoredObjects(v RestoredVolume) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	const op = "make claim"
	if v.Volume == "" || v.Zone == "" && v.Filled == nil || v.SizeGiB <= 0 || v.Ordinal < 0 || v.Run == "" {
		return nil, nil, failure.New(failure.Usage, op, string(v.Volume),
			"volume, zone, size, ordinal or run is missing")
	}
	var fromClaim corev1.PersistentVolumeClaim
	var fromVolume corev1.PersistentVolume
	if err := json.Unmarshal(v.Claim, &fromClaim); err != nil {
		return nil, nil, failure.Wrap(err, failure.Corrupt, op, "of "+string(v.Volume))
	}
	if err := json.Unmarshal(v.Object, &fromVolume); err != nil {
		return nil, nil, failure.Wrap(err, failure.Corrupt, op, "of "+string(v.Volume))
	}
	store, err := v.store(&fromClaim.ObjectMeta)
	if err != nil {
		return nil, nil, err
	}
	name, err := store.Claim(&fromClaim.ObjectMeta)
	if err != nil {
		return nil, nil, err
	}
	pvName := restoredVolumeName(v)
	return restoredClaim(&fromClaim, v, store, name, pvName), restoredVolume(&fromVolume, v, store, name, pvName), nil
}

// restoredStore is how a store of a target, and what belongs to it, is named.
type restoredStore interface {
	Pod() string
	Claim(source *metav1.ObjectMeta) (string, error)
	// Labels derives an object's labels from the source's, RenamePod its annotations.
	Labels(from map[string]string) map[string]string
	RenamePod(annotations map[string]string)
}

// store is the target's store that the volume is made for, by the source's claim.
func (v *RestoredVolume) store(claim *metav1.ObjectMeta) (restoredStore, error) {
	if operator2.IsClaim(claim) {
		return operator2.StoreOf(v.Cluster, claim)
	}
	return operator1.Store{Cluster: v.Cluster, Instance: v.Instance, Ordinal: v.Ordinal}, nil
}

// restoredVolumeName is unique to the run, role and ordinal: a released PV of another run never blocks it.
func restoredVolumeName(v RestoredVolume) string {
	return fmt.Sprintf("tisnap-%s-%s-%d", runmark.Slug(string(v.Run)), runmark.Slug(string(v.Role)), v.Ordinal)
}

// ensureVolume creates the PV, or returns the one that the run has made before.
func (c *Client) ensureVolume(
	ctx context.Context, pv *corev1.PersistentVolume, v RestoredVolume,
) (*corev1.PersistentVolume, error) {
	const op = "create persistent volume"
	if v.Filled != nil {
		return c.BlockVolumes().Exchange(ctx, v.Filled.Claim, pv)
	}
	api := c.core.PersistentVolumes()
	made, err := create(ctx, func(ctx context.Context) (*corev1.PersistentVolume, error) {
		return api.Create(ctx, pv, metav1.CreateOptions{})
	})
	if err == nil {
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, kubeerr.Wrap(err, op, pv.Name)
	}
	if made, err = api.Get(ctx, pv.Name, metav1.GetOptions{}); err != nil {
		return nil, kubeerr.Wrap(err, op, pv.Name)
	}
	if err := runmark.CheckMade(made, v.Run, op, pv.Name); err != nil {
		return nil, err
	}
	ref := made.Spec.ClaimRef
	if volumeOf(made) != v.Volume || ref == nil || ref.Namespace != pv.Spec.ClaimRef.Namespace ||
		ref.Name != pv.Spec.ClaimRef.Name {
		return nil, failure.New(failure.Conflict, op, pv.Name, "it already exists for volume %s", volumeOf(made)).
			WithHint("delete the persistent volume %s; its EBS volume is kept", pv.Name)
	}
	return made, nil
}

// awaitAvailable waits until the binder has seen the PV. It gives up after a while: the claim is then bound later.
func (c *Client) awaitAvailable(ctx context.Context, pv *corev1.PersistentVolume) error {
	end := time.Now().Add(c.bindPatience)
	for unseen(pv) {
		if time.Now().After(end) {
			return nil
		}
		if err := wait.For(ctx, availableInterval); err != nil {
			return failure.Wrap(err, failure.Limited, "wait for persistent volume", pv.Name)
		}
		now, err := c.core.PersistentVolumes().Get(ctx, pv.Name, metav1.GetOptions{})
		if err != nil {
			return kubeerr.Wrap(err, "wait for persistent volume", pv.Name)
		}
		pv = now
	}
	return nil
}

// unseen reports whether the binder has not come to a PV yet: one that is new, or whose claim it has seen go and that
// is reserved for another one since.
func unseen(pv *corev1.PersistentVolume) bool {
	switch pv.Status.Phase {
	case "", corev1.VolumePending:
		return true
	case corev1.VolumeReleased:
		return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == ""
	}
	return false
}

func (c *Client) ensureClaim(
	ctx context.Context, pvc *corev1.PersistentVolumeClaim, v RestoredVolume,
) (*corev1.PersistentVolumeClaim, error) {
	const op = "create claim"
	target := pvc.Namespace + "/" + pvc.Name
	api := c.core.PersistentVolumeClaims(pvc.Namespace)
	made, err := create(ctx, func(ctx context.Context) (*corev1.PersistentVolumeClaim, error) {
		return api.Create(ctx, pvc, metav1.CreateOptions{})
	})
	if err == nil {
		return made, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, kubeerr.Wrap(err, op, target)
	}
	if made, err = api.Get(ctx, pvc.Name, metav1.GetOptions{}); err != nil {
		return nil, kubeerr.Wrap(err, op, target)
	}
	if err := runmark.CheckMade(made, v.Run, op, target); err != nil {
		return nil, err
	}
	if made.Spec.VolumeName != pvc.Spec.VolumeName {
		return nil, failure.New(failure.Conflict, op, target, "it already exists for volume %s", made.Spec.VolumeName).
			WithHint("delete the claim %s", target)
	}
	return made, nil
}

// freeVolume makes a PV that is still reserved for a deleted claim of the same name bindable again: the binder matches
// by uid and would leave it Released forever.
func (c *Client) freeVolume(ctx context.Context, pv *corev1.PersistentVolume, pvc *corev1.PersistentVolumeClaim) error {
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID == "" || pv.Spec.ClaimRef.UID == pvc.UID {
		return nil
	}
	api := c.core.PersistentVolumes()
	return untilWritten(ctx, "free persistent volume", pv.Name, func() error {
		current, err := api.Get(ctx, pv.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if ref := current.Spec.ClaimRef; ref == nil || ref.UID == pvc.UID {
			return nil
		}
		current.Spec.ClaimRef.UID, current.Spec.ClaimRef.ResourceVersion = "", ""
		_, err = api.Update(ctx, current, metav1.UpdateOptions{})
		return err
	})
}
