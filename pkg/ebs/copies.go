package ebs

import (
	"context"
	"maps"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// CopySnapshot asks for a copy of a snapshot in this region and account; see Copies.
func (c *Client) CopySnapshot(ctx context.Context, req CopyRequest) (cluster.SnapshotID, error) {
	op := operation{
		verb: "copy snapshot", action: ActionCopySnapshot, tagged: true, queue: c.pace.copySnapshot, priority: usual,
	}
	in, err := copyInput(op, req)
	if err != nil {
		return "", err
	}
	var id string
	err = c.call(ctx, op, string(req.Snapshot), func(ctx context.Context) error {
		out, err := c.ec2.CopySnapshot(ctx, in) // signs a URL for the source's region, which encrypted ones need
		if err != nil {
			return err
		}
		id = aws.ToString(out.SnapshotId)
		return nil
	})
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", maybeHappened(
			failure.New(failure.Unknown, op.verb, string(req.Snapshot), "the answer has no id of a snapshot"))
	}
	c.recent.add(id)
	return cluster.SnapshotID(id), nil
}

// ProbeCopy asks EC2 by DryRun whether CopySnapshot would be accepted; see Copies.
func (c *Client) ProbeCopy(ctx context.Context, req CopyRequest) error {
	op := operation{
		verb: "probe permission", action: ActionCopySnapshot, tagged: true,
		repeatable: true, queue: c.pace.copySnapshot, priority: usual,
	}
	in, err := copyInput(op, req)
	if err != nil {
		return err
	}
	in.DryRun = aws.Bool(true)
	return c.call(ctx, op, string(op.action), func(ctx context.Context) error {
		_, err := c.ec2.CopySnapshot(ctx, in)
		return dryRunAnswer(err, op)
	})
}

func copyInput(op operation, req CopyRequest) (*ec2.CopySnapshotInput, error) {
	refuse := func(format string, args ...any) (*ec2.CopySnapshotInput, error) {
		return nil, failure.New(failure.Usage, op.verb, string(req.Snapshot), format, args...)
	}
	switch {
	case req.Snapshot == "":
		return refuse("no snapshot given")
	case req.Region == "":
		return refuse("no region of the snapshot given")
	case req.Within < 0 || req.Within > MaxCopyWithin || req.Within%CopyWithinStep != 0:
		return refuse("ec2 completes copies in a multiple of %v, up to %v, not in %v",
			CopyWithinStep, MaxCopyWithin, req.Within)
	}
	tags := Tags{}
	maps.Copy(tags, req.Tags)
	tags[TagCopiedFrom] = string(req.Snapshot) // by which a copy whose answer was lost is found
	in := &ec2.CopySnapshotInput{
		SourceRegion: aws.String(req.Region), SourceSnapshotId: aws.String(string(req.Snapshot)),
		TagSpecifications: tagSpecification(types.ResourceTypeSnapshot, tags),
	}
	if req.KMSKey != "" {
		in.Encrypted, in.KmsKeyId = aws.Bool(true), aws.String(req.KMSKey)
	}
	if req.Within != 0 {
		in.CompletionDurationMinutes = aws.Int32(saturate.To[int32](req.Within / time.Minute))
	}
	return in, nil
}
