package ebs

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// probeModifyGiB is a size that every TiKV volume type may grow to: EC2 refuses a modification that changes nothing.
const probeModifyGiB = 16384

// Probe asks EC2 with a dry run whether the action, with tags if the real call has them, would be allowed on the
// target. A refusal is Denied and its hint names the action. Target is an instance for CreateSnapshots, a snapshot for
// DeleteSnapshot, LockSnapshot, EnableFastSnapshotRestores and CreateVolume ("" there asks for an empty volume in
// zone), a volume for DeleteVolume and ModifyVolume; one that does not exist is NotFound.
func (c *Client) Probe(ctx context.Context, action Action, target string, zone cluster.Zone) error {
	probe, tagged := c.probe(action, target, zone)
	if probe == nil {
		return failure.New(failure.Usage, "probe permission", string(action), "this action cannot be probed")
	}
	op := operation{
		verb: "probe permission", action: action, tagged: tagged,
		repeatable: true, queue: c.pace.queueOf(action), priority: usual,
	}
	return c.call(ctx, op, string(action), func(ctx context.Context) error {
		return dryRunAnswer(probe(ctx), op)
	})
}

// dryRunAnswer is what EC2's answer to a dry run means; nil is that the call would be allowed.
func dryRunAnswer(err error, op operation) error {
	switch {
	case codeOf(err) == dryRunAllowed:
		return nil
	case err == nil:
		return failure.New(failure.Unknown, op.verb, string(op.action), "ec2 did not understand the dry run")
	default:
		return err
	}
}

func (c *Client) probe(
	action Action, target string, zone cluster.Zone,
) (send func(context.Context) error, tagged bool) {
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
	case ActionModifyVolume:
		return func(ctx context.Context) error {
			_, err := c.ec2.ModifyVolume(ctx, &ec2.ModifyVolumeInput{
				DryRun: dry, VolumeId: aws.String(target), Size: aws.Int32(probeModifyGiB),
			})
			return err
		}, false
	case ActionEnableFastRestore:
		return func(ctx context.Context) error {
			_, err := c.ec2.EnableFastSnapshotRestores(ctx, &ec2.EnableFastSnapshotRestoresInput{
				DryRun: dry, SourceSnapshotIds: []string{target}, AvailabilityZones: []string{string(zone)},
			})
			return err
		}, false
	case ActionLockSnapshot:
		return func(ctx context.Context) error {
			_, err := c.ec2.LockSnapshot(ctx, &ec2.LockSnapshotInput{
				DryRun: dry, SnapshotId: aws.String(target),
				LockMode: types.LockModeGovernance, LockDuration: aws.Int32(1),
			})
			return err
		}, false
	default:
		return nil, false
	}
}

// queueOf returns the bucket that a probe of the action draws from: a dry run costs a token too.
func (p pacing) queueOf(action Action) *callQueue {
	switch action {
	case ActionCreateSnapshots:
		return p.createSnapshots
	case ActionDeleteSnapshot:
		return p.deleteSnapshot
	case ActionCreateVolume:
		return p.createVolume
	case ActionDeleteVolume:
		return p.deleteVolume
	case ActionModifyVolume:
		return p.modifyVolume
	case ActionEnableFastRestore:
		return p.enableFast
	case ActionLockSnapshot:
		return p.lockSnapshot
	default:
		return nil
	}
}

// Zones lists the region's currently available zones, without local zones. Kinds: Denied, Limited, Unknown.
func (c *Client) Zones(ctx context.Context) ([]cluster.Zone, error) {
	found, err := c.zones(ctx)
	if err != nil {
		return nil, err
	}
	var zones []cluster.Zone
	for _, z := range found {
		zones = append(zones, cluster.Zone(aws.ToString(z.ZoneName)))
	}
	return zones, nil
}

// ZoneIDs maps each available zone of the region to its id, which is the same in all accounts.
// Kinds: Denied, Limited, Unknown.
func (c *Client) ZoneIDs(ctx context.Context) (map[cluster.Zone]string, error) {
	found, err := c.zones(ctx)
	if err != nil {
		return nil, err
	}
	ids := make(map[cluster.Zone]string, len(found))
	for _, z := range found {
		ids[cluster.Zone(aws.ToString(z.ZoneName))] = aws.ToString(z.ZoneId)
	}
	return ids, nil
}

func (c *Client) zones(ctx context.Context) ([]types.AvailabilityZone, error) {
	op := operation{
		verb: "describe availability zones", action: "ec2:DescribeAvailabilityZones", repeatable: true, priority: usual,
	}
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
	return slices.DeleteFunc(out.AvailabilityZones, func(z types.AvailabilityZone) bool {
		kind := aws.ToString(z.ZoneType)
		return kind != "" && kind != "availability-zone"
	}), nil
}
