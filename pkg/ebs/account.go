package ebs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Probe asks EC2 by DryRun whether the action, with tags where the real call has them, would be allowed on
// the target. A refusal is Denied and its hint names the action. Target is an instance for CreateSnapshots,
// a snapshot for DeleteSnapshot and CreateVolume ("" there asks for an empty volume in zone), a volume for
// DeleteVolume; one that does not exist is NotFound.
func (c *Client) Probe(ctx context.Context, action Action, target string, zone cluster.Zone) error {
	probe, tagged := c.probe(action, target, zone)
	if probe == nil {
		return failure.New(failure.Usage, "probe permission", string(action), "this action cannot be probed")
	}
	op := operation{verb: "probe permission", action: action, tagged: tagged, repeatable: true}
	return c.call(ctx, op, string(action), func(ctx context.Context) error {
		err := probe(ctx)
		switch {
		case codeOf(err) == dryRunAllowed:
			return nil
		case err == nil:
			return failure.New(failure.Unknown, op.verb, string(action), "ec2 did not understand the dry run")
		default:
			return err
		}
	})
}

func (c *Client) probe(action Action, target string, zone cluster.Zone) (send func(context.Context) error, tagged bool) {
	dry := aws.Bool(true)
	tags := Tags{TagRun: "probe"}
	switch action {
	case ActionCreateSnapshots:
		return func(ctx context.Context) error {
			_, err := c.ec2.CreateSnapshots(ctx, &ec2.CreateSnapshotsInput{
				DryRun:                dry,
				InstanceSpecification: &types.InstanceSpecification{InstanceId: aws.String(target)},
				TagSpecifications:     tagSpecification(types.ResourceTypeSnapshot, tags),
			})
			return err
		}, true
	case ActionDeleteSnapshot:
		return func(ctx context.Context) error {
			_, err := c.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{DryRun: dry, SnapshotId: aws.String(target)})
			return err
		}, false
	case ActionCreateVolume:
		in := &ec2.CreateVolumeInput{
			DryRun: dry, AvailabilityZone: aws.String(string(zone)), VolumeType: types.VolumeTypeGp3,
			TagSpecifications: tagSpecification(types.ResourceTypeVolume, tags),
		}
		if target != "" {
			in.SnapshotId = aws.String(target)
		} else {
			in.Size = aws.Int32(1)
		}
		return func(ctx context.Context) error {
			_, err := c.ec2.CreateVolume(ctx, in)
			return err
		}, true
	case ActionDeleteVolume:
		return func(ctx context.Context) error {
			_, err := c.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{DryRun: dry, VolumeId: aws.String(target)})
			return err
		}, false
	default:
		return nil, false
	}
}

// Zones lists the region's availability zones that are available now; local zones are left out.
// Kinds: Denied, Limited, Unknown.
func (c *Client) Zones(ctx context.Context) ([]cluster.Zone, error) {
	op := operation{verb: "describe availability zones", action: "ec2:DescribeAvailabilityZones", repeatable: true}
	var out *ec2.DescribeAvailabilityZonesOutput
	err := c.call(ctx, op, c.region, func(ctx context.Context) (err error) {
		out, err = c.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{
			Filters: []types.Filter{filter("state", string(types.AvailabilityZoneStateAvailable))},
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	var zones []cluster.Zone
	for _, z := range out.AvailabilityZones {
		if kind := aws.ToString(z.ZoneType); kind == "" || kind == "availability-zone" {
			zones = append(zones, cluster.Zone(aws.ToString(z.ZoneName)))
		}
	}
	return zones, nil
}
