package ebs

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Initializations returns one entry for each of these volumes that exists, in no particular order; see the
// interface of that name. Kinds: Denied, Limited, Usage, Unknown.
func (c *Client) Initializations(ctx context.Context, ids []cluster.VolumeID) ([]Initialization, error) {
	return describeAll(ctx, texts(ids),
		func(ctx context.Context, batch []string) ([]Initialization, error) {
			return c.volumeStatus(ctx, ec2.DescribeVolumeStatusInput{VolumeIds: batch})
		},
		func(ctx context.Context, batch []string) ([]Initialization, error) {
			// There is no filter by id here: the volumes that exist are found first.
			exist, err := c.volumePages(ctx, ec2.DescribeVolumesInput{
				Filters: []types.Filter{filter("volume-id", batch...)}, MaxResults: aws.Int32(describePage),
			})
			if err != nil || len(exist) == 0 {
				return nil, err
			}
			known := make([]string, len(exist))
			for i, v := range exist {
				known[i] = string(v.ID)
			}
			return c.volumeStatus(ctx, ec2.DescribeVolumeStatusInput{VolumeIds: known})
		})
}

func (c *Client) volumeStatus(ctx context.Context, in ec2.DescribeVolumeStatusInput) ([]Initialization, error) {
	op := operation{
		verb: "describe volume status", action: "ec2:DescribeVolumeStatus",
		repeatable: true, queue: c.pace.status, priority: usual,
	}
	return pages(ctx, func(ctx context.Context, token *string) ([]Initialization, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeVolumeStatusOutput
		err := c.call(ctx, op, "", func(ctx context.Context) (err error) {
			out, err = c.ec2.DescribeVolumeStatus(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		found := make([]Initialization, len(out.VolumeStatuses))
		for i, item := range out.VolumeStatuses {
			found[i] = initializationOf(item)
		}
		return found, out.NextToken, nil
	})
}

func initializationOf(item types.VolumeStatusItem) Initialization {
	out := Initialization{Volume: cluster.VolumeID(aws.ToString(item.VolumeId))}
	if item.VolumeStatus != nil {
		out.Status = string(item.VolumeStatus.Status)
		for _, detail := range item.VolumeStatus.Details {
			// Where EC2 gives no numbers, it still reports that all is there.
			if detail.Name == types.VolumeStatusNameInitializationState && aws.ToString(detail.Status) == "completed" {
				out.Known, out.Progress = true, 100
			}
		}
	}
	if d := item.InitializationStatusDetails; d != nil {
		out.Rated = d.InitializationType == types.InitializationTypeProvisionedRate
		out.Remaining = time.Duration(aws.ToInt64(d.EstimatedTimeToCompleteInSeconds)) * time.Second
		if d.Progress != nil {
			out.Known, out.Progress = true, int(min(max(*d.Progress, 0), 100))
		}
	}
	return out
}
