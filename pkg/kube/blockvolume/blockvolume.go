package blockvolume

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/kube/typed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Spec is an empty volume to ask for.
type Spec struct {
	Run             cluster.RunID
	Namespace, Name string
	Class           string // of storage
	SizeGiB         int64
	Labels          map[string]string
	// Content is what the volume is to have, such as an archive's id. The run's claim for other content is a Conflict.
	Content string
}

// Claim is one that a run made.
type Claim struct {
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	UID       string        `json:"uid"`
	Run       cluster.RunID `json:"run"`
	// Filled is what Mark noted; "" for nothing.
	Filled string `json:"filled,omitempty"`
}

// String is NAMESPACE/NAME.
func (c Claim) String() string { return c.Namespace + "/" + c.Name }

// Volume is what a claim is bound to.
type Volume struct {
	Name   string `json:"name"` // of the persistent volume
	UID    string `json:"uid"`
	Driver string `json:"driver"`
	Handle string `json:"handle"` // the driver's id of it
}

// Claims are those of a Kubernetes cluster.
type Claims struct {
	core *typed.Client
	// Interval is the pause between two questions; 0 is 2 s.
	Interval time.Duration
}

const defaultInterval = 2 * time.Second

// New returns the claims that a client of the API server sees.
func New(core *typed.Client) *Claims { return &Claims{core: core} }

func (c *Claims) pace() wait.Pace { return wait.Every(cmp.Or(c.Interval, defaultInterval)) }

// Annotations of claims: what their volumes are to have, and what they have.
const (
	contentKey = "tisnap.io/content"
	filledKey  = "tisnap.io/filled"
)

// maxName leaves room for what the names of a pod's volumes begin with.
const maxName = 56

// NameOf is the name of a run's claim for a store's volume: the same for the same, and no other run's.
func NameOf(run cluster.RunID, store uint64, role string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("%s/%d/%s", run, store, role)))
	name := fmt.Sprintf("tisnap-%s-store-%d-%s", hex.EncodeToString(sum[:6]), store, runmark.Slug(role))
	return strings.TrimRight(name[:min(len(name), maxName)], "-")
}

// defaultKey is the annotation of a cluster's default StorageClass.
const defaultKey = "storageclass.kubernetes.io/is-default-class"

// Class returns the StorageClass of this name, or the cluster's default one for "". One whose volumes are not made on
// demand is Unready.
func (c *Claims) Class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	const op = "check storage class"
	class, err := c.class(ctx, name)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(class.Provisioner, "kubernetes.io/") {
		return nil, failure.New(failure.Unready, op, class.Name, "its volumes are not made by a CSI driver, but by %s",
			class.Provisioner).WithHint("name a StorageClass of a CSI driver that has block volumes")
	}
	return class, nil
}

// AnyZone reports whether a class makes volumes before their pods are there, in any zone.
func AnyZone(class *storagev1.StorageClass) bool {
	if mode := class.VolumeBindingMode; mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer {
		return false
	}
	return len(Zones(class)) != 1
}

// Zones lists the zones in which a class may make volumes; nil is all. Drivers have labels of their own for zones, such
// as topology.ebs.csi.aws.com/zone.
func Zones(class *storagev1.StorageClass) (zones []cluster.Zone) {
	for _, term := range class.AllowedTopologies { // any of them
		named := false
		for _, e := range term.MatchLabelExpressions {
			if !strings.HasSuffix(e.Key, "/zone") {
				continue
			}
			named = true
			for _, zone := range e.Values {
				zones = append(zones, cluster.Zone(zone))
			}
		}
		if !named {
			return nil
		}
	}
	return zones
}

// ClassDigest is the same for classes that make the same volumes in the same zones at the same time, such as one that
// was deleted and made again. What a run makes does not depend on the reclaim policy, and has no mount options.
func ClassDigest(class *storagev1.StorageClass) (string, error) {
	mode := storagev1.VolumeBindingImmediate
	if class.VolumeBindingMode != nil {
		mode = *class.VolumeBindingMode
	}
	text, err := json.Marshal([]any{class.Provisioner, class.Parameters, mode, class.AllowedTopologies})
	if err != nil {
		return "", failure.Wrap(err, failure.Unknown, "check storage class", class.Name)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

func (c *Claims) class(ctx context.Context, name string) (*storagev1.StorageClass, error) {
	const op = "check storage class"
	api := c.core.StorageClasses()
	if name != "" {
		class, err := api.Get(ctx, name, metav1.GetOptions{})
		return class, kubeerr.Wrap(err, op, name)
	}
	list, err := api.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, op, "")
	}
	var found *storagev1.StorageClass
	for i := range list.Items { // of several the newest counts
		one := &list.Items[i]
		if one.Annotations[defaultKey] == "true" &&
			(found == nil || found.CreationTimestamp.Before(&one.CreationTimestamp)) {
			found = one
		}
	}
	if found == nil {
		return nil, failure.New(failure.Usage, op, "", "the cluster has no default StorageClass").
			WithHint("name one: kubectl get storageclass")
	}
	return found, nil
}

// Make makes the claim, or returns the one that the run made before. A claim of that name of another run, or of anyone
// else, is a Conflict and stays as it is; so is the run's own of another size or class, or for other content: a volume
// that is being filled may have a part of that. It waits until ctx ends.
func (c *Claims) Make(ctx context.Context, spec Spec) (Claim, error) {
	const op = "make claim"
	want, target := object(spec), spec.Namespace+"/"+spec.Name
	if spec.Run == "" || spec.SizeGiB < 1 || spec.Class == "" {
		return Claim{}, failure.New(failure.Usage, op, target, "it needs a run, a size and a StorageClass")
	}
	api := c.core.PersistentVolumeClaims(spec.Namespace)
	var made *corev1.PersistentVolumeClaim
	err := wait.Until(ctx, c.pace(), func() (_ bool, err error) {
		made, err = api.Create(ctx, want, metav1.CreateOptions{})
		there := apierrors.IsAlreadyExists(err)
		if there {
			made, err = api.Get(ctx, spec.Name, metav1.GetOptions{})
		}
		if err != nil {
			deleted := there && apierrors.IsNotFound(err) // since; without it, the namespace does not exist
			err = kubeerr.Wrap(err, op, target)
			return !deleted && !failure.Transient(err), err
		}
		if err := runmark.CheckMade(made, spec.Run, op, target); err != nil {
			return !failure.Is(err, failure.Limited), err
		}
		return true, sameAs(want, made)
	})
	if err != nil {
		return Claim{}, failure.Annotate(wait.Reason(err), op, target)
	}
	return Claim{spec.Namespace, spec.Name, string(made.UID), spec.Run, made.Annotations[filledKey]}, nil
}

func object(spec Spec) *corev1.PersistentVolumeClaim {
	mode := corev1.PersistentVolumeBlock
	size := resource.MustParse(fmt.Sprintf("%dGi", spec.SizeGiB))
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: spec.Namespace, Name: spec.Name, Labels: maps.Clone(spec.Labels),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &spec.Class, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
	runmark.Put(claim, spec.Run)
	claim.Annotations[contentKey] = spec.Content
	return claim
}

// sameAs checks that an earlier claim asks for the same.
func sameAs(want, have *corev1.PersistentVolumeClaim) error {
	const op = "make claim"
	target := have.Namespace + "/" + have.Name
	if is, content := have.Annotations[contentKey], want.Annotations[contentKey]; is != content {
		return failure.New(failure.Conflict, op, target, "the run has made it for %q, not for %q", is, content).
			WithHint("begin another run by --run-id")
	}
	size := have.Spec.Resources.Requests[corev1.ResourceStorage]
	wanted := want.Spec.Resources.Requests[corev1.ResourceStorage]
	class := ""
	if have.Spec.StorageClassName != nil {
		class = *have.Spec.StorageClassName
	}
	if size.Cmp(wanted) == 0 && class == *want.Spec.StorageClassName && isBlock(have.Spec.VolumeMode) {
		return nil
	}
	return failure.New(failure.Conflict, op, target,
		"the run has made it of %s of class %s, not of %s of class %s", size.String(), class, wanted.String(),
		*want.Spec.StorageClassName).
		WithHint("ask for what the run was begun with, or begin another one by --run-id")
}

func isBlock(mode *corev1.PersistentVolumeMode) bool {
	return mode != nil && *mode == corev1.PersistentVolumeBlock
}

// Find returns the claim of that name that the run made; nil if there is none, or only someone else's.
func (c *Claims) Find(ctx context.Context, run cluster.RunID, namespace, name string) (*Claim, error) {
	found, err := c.core.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !runmark.MadeBy(found, run) {
		return nil, nil
	}
	if err != nil {
		return nil, kubeerr.Wrap(err, "find claim", namespace+"/"+name)
	}
	return &Claim{namespace, name, string(found.UID), run, found.Annotations[filledKey]}, nil
}

// get reads the claim; nil if it is gone, or another one has its name.
func (c *Claims) get(ctx context.Context, claim Claim, op string) (*corev1.PersistentVolumeClaim, error) {
	found, err := c.core.PersistentVolumeClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && string(found.UID) != claim.UID:
		return nil, nil
	case err != nil:
		return nil, kubeerr.Wrap(err, op, claim.String())
	}
	return found, nil
}

// Bound returns the volume that the claim is bound to. One that is not bound yet is Limited; one that is gone or is
// being deleted, or whose volume is, or in whose place there is another one by now, is NotFound. A volume that was
// there before its claim may have content of someone else's: it is a Conflict.
func (c *Claims) Bound(ctx context.Context, claim Claim) (Volume, error) {
	pv, err := c.bound(ctx, claim)
	if err != nil {
		return Volume{}, err
	}
	return Volume{pv.Name, string(pv.UID), pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}, nil
}

func (c *Claims) bound(ctx context.Context, claim Claim) (*corev1.PersistentVolume, error) {
	const op = "find volume of claim"
	found, err := c.get(ctx, claim, op)
	switch {
	case err != nil:
		return nil, err
	case found == nil || found.DeletionTimestamp != nil:
		return nil, failure.New(failure.NotFound, op, claim.String(), "someone deleted it")
	case found.Status.Phase != corev1.ClaimBound:
		return nil, failure.New(failure.Limited, op, claim.String(), "it is not bound yet").
			WithHint("kubectl -n %s describe pvc %s", claim.Namespace, claim.Name)
	}
	pv, err := c.core.PersistentVolumes().Get(ctx, found.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, op, found.Spec.VolumeName)
	}
	if pv.DeletionTimestamp != nil {
		return nil, failure.New(failure.NotFound, op, claim.String(), "someone deleted its volume %s", pv.Name)
	}
	if !boundTo(pv, claim) || pv.Spec.CSI == nil || !isBlock(pv.Spec.VolumeMode) {
		return nil, failure.New(failure.Unready, op, claim.String(),
			"persistent volume %s is not a block volume of a CSI driver that is bound to it", pv.Name).
			WithHint("name a StorageClass of a CSI driver that has block volumes")
	}
	return pv, isNew(pv, found, op,
		"name a StorageClass of which no persistent volume is available, and begin another run by --run-id")
}

// isNew checks that the volume was made for the claim.
func isNew(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, op, hint string) error {
	if !pv.CreationTimestamp.Before(&claim.CreationTimestamp) {
		return nil
	}
	return failure.New(failure.Conflict, op, claim.Namespace+"/"+claim.Name,
		"persistent volume %s was there before the claim, and may have content", pv.Name).WithHint("%s", hint)
}

// Mark notes on the claim what its volume has by now: whoever uses it from then on may change it. It waits until ctx
// ends.
func (c *Claims) Mark(ctx context.Context, claim Claim, filled string) error {
	const op = "mark claim"
	api := c.core.PersistentVolumeClaims(claim.Namespace)
	err := wait.Until(ctx, c.pace(), func() (bool, error) {
		found, err := c.get(ctx, claim, op)
		switch {
		case err != nil:
			return !failure.Transient(err), err
		case found == nil:
			return true, failure.New(failure.NotFound, op, claim.String(), "someone deleted it")
		}
		metav1.SetMetaDataAnnotation(&found.ObjectMeta, filledKey, filled)
		_, err = api.Update(ctx, found, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return false, err // changed since it was read
		}
		err = kubeerr.Wrap(err, op, claim.String())
		return err == nil || !failure.Transient(err), err
	})
	return failure.Annotate(wait.Reason(err), op, claim.String())
}

// MarkVolume marks the claim's volume with its run, by which Remove finds it when the claim is gone. It fails as Bound
// does, and waits until ctx ends.
func (c *Claims) MarkVolume(ctx context.Context, claim Claim) error {
	const op = "mark volume"
	err := wait.Until(ctx, c.pace(), func() (bool, error) {
		pv, err := c.bound(ctx, claim)
		if err == nil {
			err = c.own(ctx, pv, claim, pv.Spec.PersistentVolumeReclaimPolicy)
		}
		return !failure.Transient(err), err
	})
	return failure.Annotate(wait.Reason(err), op, claim.String())
}

// own marks the claim's volume with its run, and sets its policy, unless it is so. It is Limited if the volume changes.
func (c *Claims) own(
	ctx context.Context, pv *corev1.PersistentVolume, claim Claim, policy corev1.PersistentVolumeReclaimPolicy,
) error {
	if runmark.MadeBy(pv, claim.Run) && pv.Spec.PersistentVolumeReclaimPolicy == policy {
		return nil
	}
	return c.update(ctx, pv, claim, policy)
}

// update writes a volume that was changed since it was read, with its run's mark and a policy.
func (c *Claims) update(
	ctx context.Context, pv *corev1.PersistentVolume, claim Claim, policy corev1.PersistentVolumeReclaimPolicy,
) error {
	const op = "mark volume"
	runmark.Put(pv, claim.Run)
	pv.Spec.PersistentVolumeReclaimPolicy = policy
	written, err := c.core.PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // changed since it was read
		return still(op, claim, "its volume changes")
	}
	if err != nil {
		return kubeerr.Wrap(err, op, pv.Name)
	}
	*pv = *written
	return nil
}

func boundTo(pv *corev1.PersistentVolume, claim Claim) bool {
	return pv.Spec.ClaimRef != nil && string(pv.Spec.ClaimRef.UID) == claim.UID
}
