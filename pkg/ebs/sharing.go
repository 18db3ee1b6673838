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

// maxShared is how many accounts one ModifySnapshotAttribute takes.
const maxShared = 500

// ShareSnapshot shares a snapshot with other accounts; see Sharing.
func (c *Client) ShareSnapshot(ctx context.Context, id cluster.SnapshotID, accounts []string) error {
	return c.changeSharing(ctx, "share snapshot", types.OperationTypeAdd, id, accounts)
}

// UnshareSnapshot ends that; see Sharing.
func (c *Client) UnshareSnapshot(ctx context.Context, id cluster.SnapshotID, accounts []string) error {
	recent := c.recent.has(string(id)) // when it was asked, not when it was answered
	err := c.changeSharing(ctx, "unshare snapshot", types.OperationTypeRemove, id, accounts)
	if failure.Is(err, failure.NotFound) && !recent {
		return nil
	}
	return err
}

func (c *Client) changeSharing(
	ctx context.Context, verb string, change types.OperationType, id cluster.SnapshotID, accounts []string,
) error {
	op := operation{
		verb: verb, action: "ec2:ModifySnapshotAttribute",
		repeatable: true, queue: c.pace.shareSnapshot, priority: usual,
		notPermitted: "a snapshot under the account's default key for EBS cannot be shared: " +
			"copy it under a key of your own, and share the copy",
	}
	if id == "" || len(accounts) == 0 {
		return failure.New(failure.Usage, verb, string(id), "want a snapshot and at least one account")
	}
	for batch := range slices.Chunk(accounts, maxShared) {
		err := c.call(ctx, op, string(id), func(ctx context.Context) error {
			_, err := c.ec2.ModifySnapshotAttribute(ctx, &ec2.ModifySnapshotAttributeInput{
				SnapshotId: aws.String(string(id)), Attribute: types.SnapshotAttributeNameCreateVolumePermission,
				OperationType: change, UserIds: batch,
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// SharedWith returns the accounts that a snapshot is shared with; see Sharing.
func (c *Client) SharedWith(ctx context.Context, id cluster.SnapshotID) ([]string, error) {
	op := operation{
		verb: "describe sharing of snapshot", action: "ec2:DescribeSnapshotAttribute",
		repeatable: true, queue: c.pace.shares, priority: usual,
	}
	var accounts []string
	err := c.call(ctx, op, string(id), func(ctx context.Context) error {
		out, err := c.ec2.DescribeSnapshotAttribute(ctx, &ec2.DescribeSnapshotAttributeInput{
			SnapshotId: aws.String(string(id)), Attribute: types.SnapshotAttributeNameCreateVolumePermission,
		})
		if err != nil {
			return err
		}
		accounts = nil
		for _, p := range out.CreateVolumePermissions {
			if p.UserId != nil { // otherwise it is the group of all accounts
				accounts = append(accounts, *p.UserId)
			}
		}
		return nil
	})
	return accounts, err
}
