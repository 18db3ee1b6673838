package preflight

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// describeVolumes adds EC2's data about the volumes and checks that each is attached to its pod's instance.
func describeVolumes(ctx context.Context, e ebs.Volumes, src *Source) error {
	found, err := e.DescribeVolumes(ctx, src.Topology.VolumeIDs())
	if err != nil {
		return failure.Annotate(err, "describe volumes", "")
	}
	byID := map[cluster.VolumeID]ebs.Volume{}
	src.VolumeTags = make(map[cluster.VolumeID]ebs.Tags, len(found))
	for _, v := range found {
		byID[v.ID] = v
		src.VolumeTags[v.ID] = v.Tags
	}
	for i := range src.Topology.Stores {
		s := &src.Topology.Stores[i]
		for j := range s.Volumes {
			if err := fillVolume(s, &s.Volumes[j], byID); err != nil {
				return err
			}
		}
	}
	return nil
}

func fillVolume(s *cluster.Store, v *cluster.Volume, byID map[cluster.VolumeID]ebs.Volume) error {
	got, ok := byID[v.ID]
	target := string(v.ID) + " (store " + s.ID.String() + ", " + string(v.Role) + ")"
	switch {
	case !ok:
		return failure.New(failure.NotFound, "describe volume", target, "unknown to EC2").
			WithHint("check that --region and the credentials match the cluster's account")
	case got.Instance != s.Instance:
		return failure.New(failure.Unready, "check volume", target, "it is attached to %q, but pod %s runs on %s",
			got.Instance, s.Pod, s.Instance)
	case got.Outpost != "":
		return failure.New(failure.Unready, "check volume", target,
			"it is on Outpost %s: a restore creates volumes in a Region's zones, and could not put it back there",
			got.Outpost).
			WithHint("use TiDB's own log and full backups (br), or move the stores into the Region")
	case got.State != ebs.VolumeInUse:
		return failure.New(failure.Unready, "check volume", target, "its state is %s", got.State)
	}
	v.Zone, v.VolumeSpec = got.Zone, got.Spec
	v.Encrypted, v.KMSKey = got.Encrypted, got.KMSKey
	return nil
}
