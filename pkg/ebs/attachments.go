package ebs

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Attachments reads what is currently attached to these instances; see Snapshots. More than 200 take several concurrent
// calls.
func (c *Client) Attachments(ctx context.Context, ids []cluster.InstanceID) (Attachments, error) {
	const verb = "describe instances"
	if len(ids) == 0 || slices.Contains(ids, "") {
		return nil, failure.New(failure.Usage, verb, "", "no instances given, or one without an id")
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	batches := slices.Collect(slices.Chunk(ids, describeBatch))
	parts := make([]Attachments, len(batches))
	err := parallel.Each(ctx, 0, batches, func(ctx context.Context, i int, batch []cluster.InstanceID) (err error) {
		parts[i], err = c.describeAttachments(ctx, batch)
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(Attachments, len(ids))
	for _, part := range parts {
		maps.Copy(found, part)
	}
	for _, id := range ids {
		if _, ok := found[id]; !ok {
			return nil, failure.New(failure.NotFound, verb, string(id), "no such instance")
		}
	}
	return found, nil
}

// attached returns what is currently attached to one instance.
func (c *Client) attached(ctx context.Context, id cluster.InstanceID) ([]Attachment, error) {
	found, err := c.Attachments(ctx, []cluster.InstanceID{id})
	return found[id], err
}

// describeAttachments queries one batch, by filter and page: such calls have a bucket twice as large as lists of ids,
// and do not fail as a whole for one unknown id.
func (c *Client) describeAttachments(ctx context.Context, ids []cluster.InstanceID) (Attachments, error) {
	op := operation{
		verb: "describe instances", action: "ec2:DescribeInstances",
		repeatable: true, queue: c.pace.instances, priority: urgent,
	}
	found := Attachments{}
	in := ec2.DescribeInstancesInput{
		Filters: []types.Filter{filter("instance-id", texts(ids)...)}, MaxResults: aws.Int32(describePage),
	}
	_, err := pages(ctx, func(ctx context.Context, token *string) ([]Attachment, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeInstancesOutput
		err := c.call(ctx, op, strings.Join(texts(ids[:min(len(ids), 3)]), ", "),
			func(ctx context.Context) (err error) {
				out, err = c.ec2.DescribeInstances(ctx, &in)
				return err
			})
		if err != nil {
			return nil, nil, err
		}
		for _, reservation := range out.Reservations {
			for _, instance := range reservation.Instances {
				found[cluster.InstanceID(aws.ToString(instance.InstanceId))] = attachmentsOf(instance)
			}
		}
		return nil, out.NextToken, nil
	})
	return found, err
}

func attachmentsOf(instance types.Instance) []Attachment {
	found := []Attachment{}
	for _, mapping := range instance.BlockDeviceMappings {
		if mapping.Ebs == nil || mapping.Ebs.Status == types.AttachmentStatusDetached {
			continue
		}
		found = append(found, Attachment{
			Volume: cluster.VolumeID(aws.ToString(mapping.Ebs.VolumeId)),
			Boot:   aws.ToString(mapping.DeviceName) == aws.ToString(instance.RootDeviceName),
			State:  string(mapping.Ebs.Status),
		})
	}
	return found
}

// only returns the specification that excludes every attached volume but the wanted ones.
func only(
	attached []Attachment, id cluster.InstanceID, wanted []cluster.VolumeID,
) (*types.InstanceSpecification, error) {
	spec := &types.InstanceSpecification{InstanceId: aws.String(string(id)), ExcludeBootVolume: aws.Bool(true)}
	ready := 0
	for _, have := range attached {
		switch {
		case !slices.Contains(wanted, have.Volume):
			if !have.Boot { // EC2 refuses the boot volume in the list
				spec.ExcludeDataVolumeIds = append(spec.ExcludeDataVolumeIds, string(have.Volume))
			}
		case have.State != string(types.AttachmentStatusAttached):
			return nil, failure.New(failure.Conflict, "create snapshots", string(id), "%s is %s", have.Volume,
				have.State)
		default:
			ready++
			if have.Boot {
				spec.ExcludeBootVolume = aws.Bool(false)
			}
		}
	}
	if ready != len(wanted) {
		return nil, failure.New(failure.Conflict, "create snapshots", string(id),
			"wanted %s but only these are attached: %s",
			strings.Join(texts(wanted), ", "), listed(attached)).
			WithHint("run again when the store's pod is back with all its volumes on one instance")
	}
	return spec, nil
}

// listed names the volumes.
func listed(attached []Attachment) string {
	ids := make([]string, len(attached))
	for i, have := range attached {
		ids[i] = string(have.Volume)
	}
	return strings.Join(ids, ", ")
}
