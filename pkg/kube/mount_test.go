package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMount_EachDriver(t *testing.T) {
	t.Parallel()
	csi := func(driver, handle string) corev1.PersistentVolumeSource {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
	}
	for name, row := range map[string]struct {
		source corev1.PersistentVolumeSource
		volume string
		why    string
	}{
		"EBS' own":  {csi("ebs.csi.aws.com", "vol-0a"), "vol-0a", ""},
		"Auto Mode": {csi("ebs.csi.eks.amazonaws.com", "vol-0b"), "vol-0b", ""},
		"in-tree": {corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-west-2a/vol-0c"},
		}, "vol-0c", ""},
		"in-tree, an id of no volume": {corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-west-2a/disk-0c"},
		}, "", `is bound to pv, which is not an EBS volume but a volume of the in-tree driver with the id "aws://us-west-2a/disk-0c", where vol-… is expected`},
		"EBS' own, an id of no volume": {csi("ebs.csi.aws.com", "disk-0a"), "", `is bound to pv, which is not an EBS volume but a volume of ebs.csi.aws.com with the id "disk-0a", where vol-… is expected`},
		"in-tree, of another cloud": {corev1.PersistentVolumeSource{
			GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d"},
		}, "", "is bound to pv, which is not an EBS volume but a volume without a CSI driver"},
		"another driver": {csi("efs.csi.aws.com", "fs-0d"), "", "is bound to pv, which is not an EBS volume but a volume of efs.csi.aws.com"},
		"no driver":      {corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}, "", "is bound to pv, which is not an EBS volume but a volume without a CSI driver"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &podObjects{
				claims: map[string]*corev1.PersistentVolumeClaim{"claim": {
					ObjectMeta: metav1.ObjectMeta{Name: "claim", Namespace: "tidb", UID: "u"},
					Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
					Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
				}},
				volumes: map[string]*corev1.PersistentVolume{"pv": {
					ObjectMeta: metav1.ObjectMeta{Name: "pv"},
					Spec: corev1.PersistentVolumeSpec{
						PersistentVolumeSource: row.source,
						ClaimRef:               &corev1.ObjectReference{Namespace: "tidb", Name: "claim", UID: "u"},
					},
				}},
			}
			m, why, err := f.mount("claim", "tidb")
			require.NoError(t, err)
			require.Equal(t, row.why, why)
			require.EqualValues(t, row.volume, m.Volume)
		})
	}
}
