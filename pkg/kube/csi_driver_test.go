package kube_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

const (
	ownDriver  = "ebs.csi.aws.com"
	autoDriver = "ebs.csi.eks.amazonaws.com"
)

// ofDriver is the recorded volume as if another driver had made it, with a claim of its own name and class.
func ofDriver(t *testing.T, driver, class string, ordinal int) kube.RestoredVolume {
	t.Helper()
	v := recordedVolume(t, source("dst"))
	v.Ordinal = ordinal
	v.Object = json.RawMessage(strings.ReplaceAll(string(v.Object), ownDriver, driver))
	v.Claim = json.RawMessage(strings.ReplaceAll(strings.ReplaceAll(string(v.Claim), ownDriver, driver), `"ebs-sc"`, `"`+class+`"`))
	return v
}

// A node of EKS Auto Mode attaches volumes of Auto Mode's driver alone, and another node none of these: the PV is of the
// driver of the target's StorageClass, whatever the source had.
func TestBindVolume_DriverIsThatOfTheTargetsStorageClass(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ source, provisioner, want string }{
		"into Auto Mode":         {ownDriver, autoDriver, autoDriver},
		"out of Auto Mode":       {autoDriver, ownDriver, ownDriver},
		"within Auto Mode":       {autoDriver, autoDriver, autoDriver},
		"in-tree class":          {autoDriver, "kubernetes.io/aws-ebs", ownDriver},
		"class without a driver": {autoDriver, "kubernetes.io/no-provisioner", autoDriver},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newServer(t)
			require.NoError(t, l.server.AddStorageClassOf("ebs-sc", row.provisioner))
			require.NoError(t, l.client.BindVolume(t.Context(), ofDriver(t, row.source, "ebs-sc", 0)))
			made := l.server.List("persistentvolumes", "")
			require.Len(t, made, 1)
			var pv struct {
				Metadata struct{ Annotations map[string]string }
				Spec     struct {
					CSI struct{ Driver, VolumeHandle string }
				}
			}
			raw, err := json.Marshal(made[0])
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &pv))
			require.Equal(t, row.want, pv.Spec.CSI.Driver)
			require.Equal(t, row.want, pv.Metadata.Annotations["pv.kubernetes.io/provisioned-by"])
			handles, err := l.client.Handles(t.Context())
			require.NoError(t, err)
			require.Contains(t, handles, recordedVolume(t, source("dst")).Volume, "gc has to see that a PV names the volume")
		})
	}
}

func TestDryRun_ClassesOfTwoDrivers_AreRefusedByName(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.AddStorageClass("ebs-sc"))
	require.NoError(t, l.server.AddStorageClassOf("auto", autoDriver))
	volumes := []kube.RestoredVolume{ofDriver(t, ownDriver, "ebs-sc", 0), ofDriver(t, ownDriver, "auto", 1)}
	err := l.client.DryRun(t.Context(), sourceObject(t), toDst(), volumes, false)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "ebs.csi.aws.com (StorageClass ebs-sc), ebs.csi.eks.amazonaws.com (StorageClass auto)")
	require.Empty(t, l.server.MutatingCalls())
}

func TestDryRun_ClassesOfTwoDriversIn2x_AreRefusedByName(t *testing.T) {
	t.Parallel()
	r := newLab(t).backUpCore(t)
	require.NoError(t, r.server.AddStorageClassOf("auto", autoDriver))
	before, group, ok := strings.Cut(string(r.source), `"name":"src-kv1"`)
	require.True(t, ok)
	r.source = json.RawMessage(before + `"name":"src-kv1"` + strings.Replace(group, `"ebs-sc"`, `"auto"`, 2)) // its two volumes
	err := r.client.DryRun(t.Context(), r.source, r.to, r.volumes, false)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "ebs.csi.aws.com (StorageClass ebs-sc), ebs.csi.eks.amazonaws.com (StorageClass auto)")
}

func TestDryRun_ClassOfAnotherDriver_IsRefusedByName(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.server.AddStorageClassOf("ebs-sc", "topolvm.io"))
	err := l.tried(t, sourceObject(t))
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "topolvm.io")
	require.Contains(t, failure.HintOf(err), autoDriver)
}
