package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/parallel"
)

const (
	ebsDriver = "ebs.csi.aws.com"
	// autoModeDriver is EKS Auto Mode's, whose nodes attach only its volumes
	// (https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html).
	autoModeDriver = "ebs.csi.eks.amazonaws.com"
	// The in-tree driver has been an alias of the EBS CSI driver since Kubernetes 1.23, and a class without a
	// provisioner only refers to existing volumes.
	inTreeDriver  = "kubernetes.io/aws-ebs"
	noProvisioner = "kubernetes.io/no-provisioner"

	provisionedByKey = "pv.kubernetes.io/provisioned-by"
)

func isEBSDriver(name string) bool { return name == ebsDriver || name == autoModeDriver }

// sourceDriver returns the CSI driver of a volume of the source: the EBS CSI driver for an in-tree volume.
func sourceDriver(pv *corev1.PersistentVolumeSpec) string {
	if pv.CSI != nil && isEBSDriver(pv.CSI.Driver) {
		return pv.CSI.Driver
	}
	return ebsDriver
}

// foreignDriver describes a volume that is not on EBS, or has no EBS volume id.
func foreignDriver(pv *corev1.PersistentVolume) string {
	switch spec := pv.Spec; {
	case spec.CSI != nil && isEBSDriver(spec.CSI.Driver):
		return fmt.Sprintf("a volume of %s with the id %q, where vol-… is expected", spec.CSI.Driver,
			spec.CSI.VolumeHandle)
	case spec.CSI != nil:
		return "a volume of " + spec.CSI.Driver
	case spec.AWSElasticBlockStore != nil:
		return fmt.Sprintf("a volume of the in-tree driver with the id %q, where vol-… is expected",
			spec.AWSElasticBlockStore.VolumeID)
	}
	return "a volume without a CSI driver"
}

// derived are the claim and the PV of a restored volume.
type derived func(
	ctx context.Context, v RestoredVolume,
) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error)

// restoredFor is restoredObjects with the target's driver.
func (c *Client) restoredFor(
	ctx context.Context, v RestoredVolume,
) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	pvc, pv, err := restoredObjects(v)
	if err != nil {
		return nil, nil, err
	}
	return pvc, pv, c.setDriver(ctx, pvc, pv, v.Filled)
}

// setDriver gives a PV the driver of its claim's StorageClass, or that of the claim which was filled.
func (c *Client) setDriver(
	ctx context.Context, pvc *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, filled *FilledClaim,
) (err error) {
	driver := ""
	if filled != nil {
		driver = filled.Driver
	} else if driver, err = c.targetDriver(ctx, pvc.Spec.StorageClassName, pv.Spec.CSI.Driver); err != nil {
		return err
	}
	pv.Spec.CSI.Driver = driver
	// The driver in these annotations deletes the volume if the PV's policy ever becomes Delete.
	for _, annotations := range []map[string]string{pv.Annotations, pvc.Annotations} {
		for _, key := range []string{
			provisionedByKey, "volume.kubernetes.io/storage-provisioner",
			"volume.beta.kubernetes.io/storage-provisioner",
		} {
			if _, has := annotations[key]; has {
				annotations[key] = driver
			}
		}
	}
	return nil
}

// targetDriver returns the CSI driver of the target's StorageClass, which attaches its volumes, or the source's driver
// without one. A class of a driver other than EBS's is Unready.
func (c *Client) targetDriver(ctx context.Context, class *string, source string) (string, error) {
	const op = "check storage class"
	if class == nil || *class == "" {
		return source, nil
	}
	if known, ok := c.drivers.Load(*class); ok {
		return orSource(known, source), nil
	}
	found, err := c.core.StorageClasses().Get(ctx, *class, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return source, nil
	case err != nil:
		return "", kubeerr.Wrap(err, op, *class)
	}
	driver := found.Provisioner
	switch {
	case isEBSDriver(driver):
	case driver == inTreeDriver:
		driver = ebsDriver
	case driver == noProvisioner:
		driver = ""
	default:
		return "", failure.New(failure.Unready, op, *class,
			"its provisioner is %s, but restored volumes are EBS volumes", driver).
			WithHint("use a StorageClass of %s or, on EKS Auto Mode, %s for the target's TiKV", ebsDriver,
				autoModeDriver)
	}
	c.drivers.Store(*class, driver)
	return orSource(driver, source), nil
}

func orSource(driver any, source string) string {
	if name, ok := driver.(string); ok && name != "" {
		return name
	}
	return source
}

// checkDrivers rejects a target whose volumes would have several drivers: a node attaches volumes of only one.
func checkDrivers(ctx context.Context, volumes []RestoredVolume, derive derived) error {
	var mu sync.Mutex
	classes := map[string][]string{}
	err := parallel.Each(ctx, parallelRequests, volumes, func(ctx context.Context, _ int, v RestoredVolume) error {
		v.Volume = anyVolume
		pvc, pv, err := derive(ctx, v)
		if err != nil {
			return err
		}
		name := "none"
		if pvc.Spec.StorageClassName != nil {
			name = *pvc.Spec.StorageClassName
		}
		mu.Lock()
		defer mu.Unlock()
		if driver := pv.Spec.CSI.Driver; !slices.Contains(classes[driver], name) {
			classes[driver] = append(classes[driver], name)
		}
		return nil
	})
	if err != nil || len(classes) < 2 {
		return err
	}
	var mix []string
	for _, driver := range slices.Sorted(maps.Keys(classes)) {
		slices.Sort(classes[driver])
		mix = append(mix, driver+" (StorageClass "+strings.Join(classes[driver], ", ")+")")
	}
	return failure.New(failure.Unready, "check storage classes", volumes[0].Cluster.String(),
		"its TiKV volumes would have several CSI drivers: %s", strings.Join(mix, ", ")).
		WithHint("use StorageClasses of one driver in the target's Kubernetes cluster: a node attaches volumes of " +
			"only one")
}
