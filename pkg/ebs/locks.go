package ebs

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// SnapshotLocks returns the locks of these snapshots, in no particular order; one that was never locked, or
// that does not exist, is left out. Kinds: Denied, Limited, Usage, Unknown.
func (c *Client) SnapshotLocks(ctx context.Context, ids []cluster.SnapshotID) ([]SnapshotLock, error) {
	if len(ids) == 0 {
		return nil, nil // no ids at all would be every lock of the account
	}
	return describeAll(ctx, texts(ids), c.lockedSnapshots,
		func(ctx context.Context, batch []string) ([]SnapshotLock, error) {
			asked := make([]cluster.SnapshotID, len(batch))
			for i, id := range batch {
				asked[i] = cluster.SnapshotID(id)
			}
			exist, err := c.DescribeSnapshots(ctx, asked)
			if err != nil || len(exist) == 0 {
				return nil, err
			}
			known := make([]string, len(exist))
			for i, s := range exist {
				known[i] = string(s.ID)
			}
			found, err := c.lockedSnapshots(ctx, known)
			if failure.Is(err, failure.NotFound) { // one was deleted meanwhile, and others may be
				found, err = c.locksOneByOne(ctx, known)
			}
			return found, err
		})
}

// locksOneByOne asks for each snapshot alone; one that does not exist has no lock.
func (c *Client) locksOneByOne(ctx context.Context, ids []string) (all []SnapshotLock, err error) {
	for _, id := range ids {
		found, err := c.lockedSnapshots(ctx, []string{id})
		if err != nil && !failure.Is(err, failure.NotFound) {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *Client) lockedSnapshots(ctx context.Context, ids []string) ([]SnapshotLock, error) {
	op := operation{
		verb: "describe locked snapshots", action: "ec2:DescribeLockedSnapshots",
		repeatable: true, queue: c.pace.locks, priority: usual,
	}
	in := ec2.DescribeLockedSnapshotsInput{SnapshotIds: slices.Clone(ids)}
	return pages(ctx, func(ctx context.Context, token *string) ([]SnapshotLock, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeLockedSnapshotsOutput
		err := c.call(ctx, op, "", func(ctx context.Context) (err error) {
			out, err = c.ec2.DescribeLockedSnapshots(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		found := make([]SnapshotLock, len(out.Snapshots))
		for i, s := range out.Snapshots {
			found[i] = SnapshotLock{
				Snapshot:    cluster.SnapshotID(aws.ToString(s.SnapshotId)),
				Mode:        string(s.LockState),
				ExpiresAt:   aws.ToTime(s.LockExpiresOn),
				CooledOffAt: aws.ToTime(s.CoolOffPeriodExpiresOn),
			}
		}
		return found, out.NextToken, nil
	})
}
