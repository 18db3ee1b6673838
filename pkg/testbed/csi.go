package testbed

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// csi is the EBS CSI driver: it makes and attaches the stand-in's volumes.
type csi struct {
	ec2    *ebstest.Server
	faults *fault.Plan
}

// Provision makes a gp3 volume, with the tags that the driver of EKS gives it.
func (c csi) Provision(_ context.Context, v kubetest.NewVolume) (cluster.VolumeID, error) {
	return c.ec2.CreateVolumeDirect(v.Zone, cluster.VolumeSpec{Type: "gp3", SizeGiB: v.SizeGiB}, ebs.Tags{
		"ebs.csi.aws.com/cluster": "true", "CSIVolumeName": v.PV,
		"kubernetes.io/created-for/pv/name":       v.PV,
		"kubernetes.io/created-for/pvc/name":      v.Claim.Name,
		"kubernetes.io/created-for/pvc/namespace": v.Claim.Namespace,
	})
}

// Attach is idempotent, as ControllerPublishVolume is. A strike at csi.Attach refuses it.
func (c csi) Attach(_ context.Context, v cluster.VolumeID, i cluster.InstanceID) error {
	if strike := c.faults.At("csi.Attach"); strike != nil {
		return fmt.Errorf("attach %s to %s: %s", v, i, cmp.Or(strike.Code, "AttachmentLimitExceeded"))
	}
	if got, ok := c.ec2.Volume(v); ok && got.Instance == i && got.State == ebs.VolumeInUse {
		return nil
	}
	return c.ec2.Attach(v, i)
}

// Detach is idempotent.
func (c csi) Detach(_ context.Context, v cluster.VolumeID) error {
	if got, ok := c.ec2.Volume(v); ok && got.Instance == "" {
		return nil
	}
	if err := c.ec2.Detach(v); err != nil {
		return fmt.Errorf("detach %s: %w", v, err)
	}
	return nil
}

// Modify calls ModifyVolume.
func (c csi) Modify(ctx context.Context, v cluster.VolumeID, sizeGiB int64, _ string) error {
	return call(ctx, c.ec2, url.Values{
		"Action": {"ModifyVolume"}, "VolumeId": {string(v)}, "Size": {strconv.FormatInt(sizeGiB, 10)}, "VolumeType": {"gp3"},
	})
}

// Delete is idempotent.
func (c csi) Delete(_ context.Context, v cluster.VolumeID) error {
	if _, ok := c.ec2.Volume(v); !ok {
		return nil
	}
	return c.ec2.DeleteVolumeDirect(v)
}

// Zone is "" for a volume that does not exist.
func (c csi) Zone(v cluster.VolumeID) cluster.Zone {
	got, ok := c.ec2.Volume(v)
	if !ok {
		return ""
	}
	return got.Zone
}
