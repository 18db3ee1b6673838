package ebs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// DescribeVolumes returns the volumes with these ids, in no particular order. One that does not exist, or
// that EC2 does not show yet, is left out. Kinds: Denied, Limited, Usage (malformed id), Unknown.
func (c *Client) DescribeVolumes(ctx context.Context, ids []cluster.VolumeID) ([]Volume, error) {
	return describeAll(ctx, texts(ids),
		func(ctx context.Context, batch []string) ([]Volume, error) {
			return c.volumePages(ctx, ec2.DescribeVolumesInput{VolumeIds: batch})
		},
		func(ctx context.Context, batch []string) ([]Volume, error) {
			return c.volumePages(ctx, ec2.DescribeVolumesInput{
				Filters: []types.Filter{filter("volume-id", batch...)}, MaxResults: aws.Int32(describePage),
			})
		})
}

// FindVolumes returns all volumes that carry every one of these tags; no tags at all is a Usage error, for
// it would be every volume of the account.
func (c *Client) FindVolumes(ctx context.Context, tags Tags) ([]Volume, error) {
	if len(tags) == 0 {
		return nil, failure.New(failure.Usage, "find volumes", "", "no tags given")
	}
	return c.volumePages(ctx, ec2.DescribeVolumesInput{Filters: tagFilters(tags), MaxResults: aws.Int32(describePage)})
}

// AllVolumes returns all volumes with the tag TagRun, of any run. Kinds: Denied, Limited, Unknown.
func (c *Client) AllVolumes(ctx context.Context) ([]Volume, error) {
	return c.volumePages(ctx, ec2.DescribeVolumesInput{
		Filters: []types.Filter{filter("tag-key", TagRun)}, MaxResults: aws.Int32(describePage),
	})
}

func (c *Client) volumePages(ctx context.Context, in ec2.DescribeVolumesInput) ([]Volume, error) {
	op := operation{
		verb: "describe volumes", action: "ec2:DescribeVolumes",
		repeatable: true, queue: c.pace.pagedVolumes, priority: usual,
	}
	if in.MaxResults == nil {
		op.queue = c.pace.listedVolumes
	}
	return pages(ctx, func(ctx context.Context, token *string) ([]Volume, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeVolumesOutput
		err := c.call(ctx, op, "", func(ctx context.Context) (err error) {
			out, err = c.ec2.DescribeVolumes(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		found := make([]Volume, len(out.Volumes))
		for i, v := range out.Volumes {
			found[i] = volumeOf(v)
		}
		return found, out.NextToken, nil
	})
}

// DeleteVolume deletes a volume that is not attached; deleting one that does not exist succeeds. An
// attached one is a Conflict and stays. One that is still creating is waited for, for up to a minute, and so
// is one that this client made within the last minute and that EC2 does not know yet.
// Kinds: Conflict, Denied, Limited, Unready, Usage, Unknown.
func (c *Client) DeleteVolume(ctx context.Context, id cluster.VolumeID) error {
	if id == "" {
		return failure.New(failure.Usage, "delete volume", "", "no id given")
	}
	op := operation{
		verb: "delete volume", action: ActionDeleteVolume,
		repeatable: true, queue: c.pace.deleteVolume, priority: background,
	}
	return c.remove(ctx, op, string(id), func(ctx context.Context) error {
		_, err := c.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(string(id))})
		return err
	})
}
