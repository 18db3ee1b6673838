package ebs

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// DescribeSnapshots returns the snapshots with these ids, in no particular order. One that does not exist,
// or that EC2 does not show yet, is left out. Kinds: Denied, Limited, Usage (malformed id), Unknown.
func (c *Client) DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]Snapshot, error) {
	return describeAll(ctx, texts(ids),
		func(ctx context.Context, batch []string) ([]Snapshot, error) {
			return c.snapshotPages(ctx, ec2.DescribeSnapshotsInput{SnapshotIds: batch})
		},
		func(ctx context.Context, batch []string) ([]Snapshot, error) {
			return c.snapshotPages(ctx, ec2.DescribeSnapshotsInput{
				Filters: []types.Filter{filter("snapshot-id", batch...)}, MaxResults: aws.Int32(describePage),
			})
		})
}

// FindSnapshots returns all own snapshots that carry every one of these tags; no tags at all is a Usage
// error, for it would be every snapshot of the account.
func (c *Client) FindSnapshots(ctx context.Context, tags Tags) ([]Snapshot, error) {
	if len(tags) == 0 {
		return nil, failure.New(failure.Usage, "find snapshots", "", "no tags given")
	}
	return c.ownSnapshots(ctx, tagFilters(tags)...)
}

// AllSnapshots returns all own snapshots with the tag TagRun, of any run. Kinds: Denied, Limited, Unknown.
func (c *Client) AllSnapshots(ctx context.Context) ([]Snapshot, error) {
	return c.ownSnapshots(ctx, filter("tag-key", TagRun))
}

// PendingSnapshots counts the account's snapshots that are still pending.
func (c *Client) PendingSnapshots(ctx context.Context) (int, error) {
	pending, err := c.ownSnapshots(ctx, filter("status", string(SnapshotPending)))
	return len(pending), err
}

// SnapshotsInProgress counts the own snapshots of each of these volumes that are pending or in error; see
// InProgress. Kinds: Denied, Limited, Unknown.
func (c *Client) SnapshotsInProgress(ctx context.Context, ids []cluster.VolumeID) (map[cluster.VolumeID]int, error) {
	count := map[cluster.VolumeID]int{}
	for batch := range slices.Chunk(unique(ids), describeBatch) {
		found, err := c.ownSnapshots(ctx, filter("volume-id", batch...),
			filter("status", string(SnapshotPending), string(SnapshotError)))
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			count[s.Volume]++
		}
	}
	return count, nil
}

// startMinutes is how EC2's filter for the start of a snapshot names a minute.
const startMinutes = "2006-01-02T15:04*"

// NewestSnapshots is when the newest own snapshot of each of these volumes was started, of those started since.
// Kinds: Denied, Limited, Unknown.
func (c *Client) NewestSnapshots(
	ctx context.Context, ids []cluster.VolumeID, since time.Time,
) (map[cluster.VolumeID]time.Time, error) {
	var minutes []string
	end := time.Now().UTC()
	if end.Before(since) {
		end = since.UTC()
	}
	end = end.Add(2 * time.Minute) // EC2's clock may be ahead
	for at := since.UTC().Truncate(time.Minute); at.Before(end); at = at.Add(time.Minute) {
		minutes = append(minutes, at.Format(startMinutes))
	}
	newest := map[cluster.VolumeID]time.Time{}
	for batch := range slices.Chunk(unique(ids), describeBatch) {
		found, err := c.ownSnapshots(ctx, filter("volume-id", batch...), filter("start-time", minutes...))
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if s.StartedAt.After(newest[s.Volume]) && !s.StartedAt.Before(since) {
				newest[s.Volume] = s.StartedAt
			}
		}
	}
	return newest, nil
}

func (c *Client) ownSnapshots(ctx context.Context, filters ...types.Filter) ([]Snapshot, error) {
	return c.snapshotPages(ctx, ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: filters, MaxResults: aws.Int32(describePage),
	})
}

func (c *Client) snapshotPages(ctx context.Context, in ec2.DescribeSnapshotsInput) ([]Snapshot, error) {
	op := operation{
		verb: "describe snapshots", action: "ec2:DescribeSnapshots",
		repeatable: true, queue: c.pace.pagedSnapshots, priority: usual,
	}
	if in.MaxResults == nil {
		op.queue = c.pace.listedSnapshots
	}
	return pages(ctx, func(ctx context.Context, token *string) ([]Snapshot, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeSnapshotsOutput
		err := c.call(ctx, op, "", func(ctx context.Context) (err error) {
			out, err = c.ec2.DescribeSnapshots(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		found := make([]Snapshot, len(out.Snapshots))
		for i, s := range out.Snapshots {
			found[i] = snapshotOf(s)
		}
		return found, out.NextToken, nil
	})
}

// DeleteSnapshot deletes one snapshot; deleting one that does not exist succeeds. A snapshot that this
// client made within the last minute and that EC2 does not know yet is waited for.
// Kinds: Conflict (an image uses it), Denied, Limited, Usage, Unknown.
func (c *Client) DeleteSnapshot(ctx context.Context, id cluster.SnapshotID) error {
	if id == "" {
		return failure.New(failure.Usage, "delete snapshot", "", "no id given")
	}
	op := operation{
		verb: "delete snapshot", action: ActionDeleteSnapshot,
		repeatable: true, queue: c.pace.deleteSnapshot, priority: background,
	}
	return c.remove(ctx, op, string(id), func(ctx context.Context) error {
		_, err := c.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: aws.String(string(id))})
		return err
	})
}

// remove deletes a resource that may already be gone, not visible yet, or not yet in a deletable state.
func (c *Client) remove(ctx context.Context, op operation, id string, send func(context.Context) error) error {
	end := c.clock.Now().Add(VisibleWithin)
	for try := 2; ; try++ {
		recent := c.recent.has(id) // when it was asked, not when it was answered
		err := c.call(ctx, op, id, send)
		switch {
		case err == nil:
			c.recent.forget(id)
			return nil
		case failure.Is(err, failure.NotFound):
			if !recent {
				return nil
			}
		case failure.Is(err, failure.Unready) && c.clock.Now().Before(end):
		default:
			return err
		}
		if waitErr := c.clock.Sleep(ctx, grow(throttleStart, queueStart, try)); waitErr != nil {
			return failure.New(failure.Limited, op.verb, id, "%w, and then no time was left: %w", err, waitErr).
				WithHint("delete it again in a minute")
		}
	}
}
