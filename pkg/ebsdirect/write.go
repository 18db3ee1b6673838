package ebsdirect

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ebs"
	"github.com/aws/aws-sdk-go-v2/service/ebs/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// Start implements Target.
func (c *Client) Start(ctx context.Context, s NewSnapshot) (cluster.SnapshotID, error) {
	if s.Parent != "" && (s.Encrypted || s.KMSKey != "") {
		return "", failure.New(failure.Usage, opStart.verb, "", "with a parent it is encrypted as the parent is")
	}
	if s.Token == "" { // the SDK would choose another one for each try
		return "", failure.New(failure.Usage, opStart.verb, "", "no client token")
	}
	in := &sdk.StartSnapshotInput{
		ClientToken: &s.Token, VolumeSize: &s.SizeGiB, Description: optional(s.Description),
		ParentSnapshotId: optional(string(s.Parent)), KmsKeyArn: optional(s.KMSKey),
	}
	if s.Encrypted || s.KMSKey != "" {
		in.Encrypted = aws.Bool(true)
	}
	if s.Timeout > 0 {
		in.Timeout = aws.Int32(saturate.To[int32](s.Timeout / time.Minute))
	}
	for _, key := range slices.Sorted(maps.Keys(s.Tags)) {
		in.Tags = append(in.Tags, types.Tag{Key: aws.String(key), Value: aws.String(s.Tags[key])})
	}
	var id cluster.SnapshotID
	err := c.call(ctx, opStart, s.Parent, func(ctx context.Context) error {
		out, err := c.api.StartSnapshot(ctx, in)
		if err != nil {
			return err
		}
		id = cluster.SnapshotID(aws.ToString(out.SnapshotId))
		return nil
	})
	return id, err
}

// Put implements Target.
func (c *Client) Put(ctx context.Context, id cluster.SnapshotID, index int64, data []byte, sum Sum) error {
	return c.call(ctx, opPut.on(index), id, func(ctx context.Context) error {
		_, err := c.api.PutSnapshotBlock(ctx, &sdk.PutSnapshotBlockInput{
			SnapshotId: aws.String(string(id)), BlockIndex: index32(index), BlockData: bytes.NewReader(data),
			DataLength: index32(int64(len(data))), Checksum: aws.String(sum.encoded()),
			ChecksumAlgorithm: types.ChecksumAlgorithmChecksumAlgorithmSha256,
		})
		return err
	})
}

// Complete implements Target.
func (c *Client) Complete(ctx context.Context, id cluster.SnapshotID, blocks int64, sum Sum) error {
	in := &sdk.CompleteSnapshotInput{
		SnapshotId: aws.String(string(id)), ChangedBlocksCount: index32(blocks), Checksum: aws.String(sum.encoded()),
		ChecksumAlgorithm:         types.ChecksumAlgorithmChecksumAlgorithmSha256,
		ChecksumAggregationMethod: types.ChecksumAggregationMethodChecksumAggregationLinear,
	}
	return c.call(ctx, opComplete, id, func(ctx context.Context) error {
		_, err := c.api.CompleteSnapshot(ctx, in)
		return err
	})
}

// optional is nil for "".
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
