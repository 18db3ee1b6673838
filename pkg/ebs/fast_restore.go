package ebs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// fastRestoreBatch is the most snapshots that EC2 takes in one call.
const fastRestoreBatch = 10

// EnableFastRestore asks for fast snapshot restore for every snapshot in every zone; see FastRestores.
// Kinds: Denied, Limited (the quota is used up), NotFound, Unready (a snapshot is pending), Usage, Unknown.
func (c *Client) EnableFastRestore(
	ctx context.Context, ids []cluster.SnapshotID, zones []cluster.Zone,
) ([]FastRestore, error) {
	op := operation{
		verb: "enable fast snapshot restore", action: ActionEnableFastRestore,
		repeatable: true, queue: c.pace.enableFast, priority: usual,
	}
	if len(ids) == 0 || len(zones) == 0 {
		return nil, failure.New(failure.Usage, op.verb, "", "no snapshots or no zones given")
	}
	var (
		made []FastRestore
		errs []error
	)
	for batch := range slices.Chunk(unique(ids), fastRestoreBatch) {
		var out *ec2.EnableFastSnapshotRestoresOutput
		err := c.call(ctx, op, batchName(batch), func(ctx context.Context) (err error) {
			out, err = c.ec2.EnableFastSnapshotRestores(ctx, &ec2.EnableFastSnapshotRestoresInput{
				SourceSnapshotIds: batch, AvailabilityZones: texts(zones),
			})
			return err
		})
		if err != nil {
			errs = append(errs, err)
			continue // the others are listed one by one, so that the caller knows what to disable
		}
		for _, item := range out.Successful {
			made = append(made, FastRestore{
				Snapshot: cluster.SnapshotID(aws.ToString(item.SnapshotId)),
				Zone:     cluster.Zone(aws.ToString(item.AvailabilityZone)),
				State:    FastRestoreState(item.State), Reason: aws.ToString(item.StateTransitionReason),
				EnabledAt: aws.ToTime(item.EnabledTime),
			})
		}
		for _, item := range out.Unsuccessful {
			for _, refused := range item.FastSnapshotRestoreStateErrors {
				if e := refused.Error; e != nil {
					errs = append(errs, pairError(op, item.SnapshotId, refused.AvailabilityZone, e.Code, e.Message))
				}
			}
		}
	}
	return made, errors.Join(errs...)
}

// DisableFastRestore ends fast snapshot restore, and its costs; see FastRestores. Every batch is tried, whatever
// became of the one before. Kinds: Denied, Limited, Usage, Unknown.
func (c *Client) DisableFastRestore(ctx context.Context, ids []cluster.SnapshotID, zones []cluster.Zone) error {
	op := operation{
		verb: "disable fast snapshot restore", action: ActionDisableFastRestore,
		repeatable: true, queue: c.pace.disableFast, priority: usual,
	}
	if len(ids) == 0 || len(zones) == 0 {
		return failure.New(failure.Usage, op.verb, "", "no snapshots or no zones given")
	}
	var errs []error
	for batch := range slices.Chunk(unique(ids), fastRestoreBatch) {
		var out *ec2.DisableFastSnapshotRestoresOutput
		err := c.call(ctx, op, batchName(batch), func(ctx context.Context) (err error) {
			out, err = c.ec2.DisableFastSnapshotRestores(ctx, &ec2.DisableFastSnapshotRestoresInput{
				SourceSnapshotIds: batch, AvailabilityZones: texts(zones),
			})
			return err
		})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, item := range out.Unsuccessful {
			for _, refused := range item.FastSnapshotRestoreStateErrors {
				if e := refused.Error; e != nil {
					errs = append(errs, pairError(op, item.SnapshotId, refused.AvailabilityZone, e.Code, e.Message))
				}
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return c.stillEnabled(ctx, ids, zones, errors.Join(errs...))
}

// stillEnabled turns refusals into success if nothing of the kind is enabled (any more): a snapshot that is
// gone, or a pair that was never enabled.
func (c *Client) stillEnabled(
	ctx context.Context, ids []cluster.SnapshotID, zones []cluster.Zone, refused error,
) error {
	found, err := c.FastRestores(ctx, ids)
	if err != nil {
		return refused
	}
	for _, f := range found {
		if slices.Contains(zones, f.Zone) && f.State != FastRestoreDisabled && f.State != FastRestoreDisabling {
			return refused
		}
	}
	return nil
}

// pairError is EC2's refusal of one snapshot in one zone, by the table of codes.
func pairError(op operation, snapshot, zone, code, message *string) error {
	err := &smithy.GenericAPIError{Code: aws.ToString(code), Message: aws.ToString(message)}
	return translate(concise(err), op, fmt.Sprintf("%s in %s", aws.ToString(snapshot), aws.ToString(zone)))
}

func batchName(ids []string) string {
	if len(ids) == 1 {
		return ids[0]
	}
	return fmt.Sprintf("%s and %d more", ids[0], len(ids)-1)
}

// FastRestores returns the state of each pair that EC2 knows, in no particular order; see FastRestores.
// Kinds: Denied, Limited, Usage, Unknown.
func (c *Client) FastRestores(ctx context.Context, ids []cluster.SnapshotID) ([]FastRestore, error) {
	if len(ids) == 0 {
		return c.fastRestores(ctx, filter("state", string(FastRestoreEnabling), string(FastRestoreOptimizing),
			string(FastRestoreEnabled), string(FastRestoreDisabling)))
	}
	var all []FastRestore
	for batch := range slices.Chunk(unique(ids), describeBatch) {
		found, err := c.fastRestores(ctx, filter("snapshot-id", batch...))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *Client) fastRestores(ctx context.Context, by types.Filter) ([]FastRestore, error) {
	op := operation{
		verb: "describe fast snapshot restores", action: "ec2:DescribeFastSnapshotRestores",
		repeatable: true, queue: c.pace.fastRestores, priority: usual,
	}
	in := ec2.DescribeFastSnapshotRestoresInput{Filters: []types.Filter{by}, MaxResults: aws.Int32(fastRestorePage)}
	return pages(ctx, func(ctx context.Context, token *string) ([]FastRestore, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeFastSnapshotRestoresOutput
		err := c.call(ctx, op, "", func(ctx context.Context) (err error) {
			out, err = c.ec2.DescribeFastSnapshotRestores(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		found := make([]FastRestore, len(out.FastSnapshotRestores))
		for i, item := range out.FastSnapshotRestores {
			found[i] = FastRestore{
				Snapshot: cluster.SnapshotID(aws.ToString(item.SnapshotId)),
				Zone:     cluster.Zone(aws.ToString(item.AvailabilityZone)),
				State:    FastRestoreState(item.State), Reason: aws.ToString(item.StateTransitionReason),
				EnabledAt: aws.ToTime(item.EnabledTime),
			}
		}
		return found, out.NextToken, nil
	})
}

// Credits is how many volumes can be made with full speed at a time, by EC2's documented rule: a bucket of
// MAX(1, MIN(10, 1024 ÷ size in GiB)) that starts empty when the snapshot becomes enabled and fills by
// MIN(10, 1024 ÷ size) an hour, less what was taken. EC2's own figure is in CloudWatch alone.
func (f FastRestore) Credits(sizeGiB int64, taken int, now time.Time) float64 {
	if f.State != FastRestoreEnabled || f.EnabledAt.IsZero() || sizeGiB <= 0 {
		return 0
	}
	fill := min(10, 1024/float64(sizeGiB))
	return max(0, min(max(1, fill), now.Sub(f.EnabledAt).Hours()*fill)-float64(taken))
}

// CreditAt is when the first credit is there: from then on one volume gets full speed. It is zero while
// the snapshot is not enabled.
func (f FastRestore) CreditAt(sizeGiB int64) time.Time {
	if f.State != FastRestoreEnabled || f.EnabledAt.IsZero() || sizeGiB <= 0 {
		return time.Time{}
	}
	return f.EnabledAt.Add(time.Duration(float64(time.Hour) / min(10, 1024/float64(sizeGiB))))
}
