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

// quotaCodes are those that EC2 may answer although an earlier try with the same token made the volume:
// it looks at the limits before it looks at the token.
var quotaCodes = []string{"VolumeLimitExceeded", "VolumeIOPSLimit", "MaxIOPSLimitExceeded"} //nolint:gochecknoglobals // constant

// CreateVolume asks for a volume and returns while it is still creating; see Volumes. Lost answers are
// asked for again with the same token. Over a quota, the volume is looked up by its tags first.
// Kinds: Conflict (token used with other parameters), Denied, Limited, NotFound, Unready (the snapshot is
// pending), Usage, Unknown.
func (c *Client) CreateVolume(ctx context.Context, req VolumeRequest) (Volume, error) {
	if err := req.validate(); err != nil {
		return Volume{}, err
	}
	var (
		out  *ec2.CreateVolumeOutput
		last error
		lost bool
	)
	op := operation{
		verb: "create volume", action: ActionCreateVolume, tagged: true,
		repeatable: true, lane: c.pace.createVolume, priority: usual,
	}
	target := "a volume from " + string(req.Snapshot)
	err := c.call(ctx, op, target, func(ctx context.Context) error {
		out, last = c.ec2.CreateVolume(ctx, req.input())
		lost = lost || (last != nil && classify(last).again == ambiguous)
		return last
	})
	if err == nil {
		volume := volumeOf(types.Volume{
			VolumeId: out.VolumeId, State: out.State, AvailabilityZone: out.AvailabilityZone,
			VolumeType: out.VolumeType, Size: out.Size, Iops: out.Iops, Throughput: out.Throughput,
			SnapshotId: out.SnapshotId, Encrypted: out.Encrypted, KmsKeyId: out.KmsKeyId, Tags: out.Tags,
		})
		if volume.ID == "" {
			return Volume{}, failure.New(failure.Unknown, op.verb, target, "the answer has no volume id")
		}
		c.recent.add(string(volume.ID))
		return volume, nil
	}
	if slices.Contains(quotaCodes, codeOf(err)) {
		if volume, ok := c.madeBefore(ctx, req, lost); ok {
			return volume, nil
		}
	}
	return Volume{}, err
}

// madeBefore looks for the volume of an earlier try. If an answer of this call was lost, it looks until the
// volume must be visible.
func (c *Client) madeBefore(ctx context.Context, req VolumeRequest, lost bool) (Volume, bool) {
	if len(req.Tags) == 0 {
		return Volume{}, false
	}
	for end := c.clock.Now().Add(visibleWithin); ; {
		found, err := c.FindVolumes(ctx, req.Tags)
		if err != nil {
			return Volume{}, false // the quota is the better answer
		}
		for _, v := range found {
			if v.Snapshot == req.Snapshot && v.Zone == req.Zone && v.State != VolumeError && v.State != VolumeDeleting {
				return v, true
			}
		}
		if !lost || !c.clock.Now().Before(end) || c.clock.Sleep(ctx, 2*time.Second) != nil {
			return Volume{}, false
		}
	}
}

// validate finds what EC2 would refuse, before it is asked.
func (r VolumeRequest) validate() error {
	refuse := func(format string, args ...any) error {
		return failure.New(failure.Usage, "create volume", "a volume from "+string(r.Snapshot), format, args...)
	}
	switch {
	case r.Snapshot == "":
		return refuse("no snapshot given")
	case r.Zone == "":
		return refuse("no zone given")
	case r.Token == "" || len(r.Token) > 64:
		return refuse("the client token has %d characters; 1 to 64 are allowed", len(r.Token))
	case slices.ContainsFunc([]byte(r.Token), func(b byte) bool { return b < 0x20 || b > 0x7e }):
		return refuse("the client token is not plain ascii")
	case r.KMSKey != "" && !r.Encrypted:
		return refuse("a kms key is given for a volume that is not to be encrypted")
	}
	return r.Spec.Validate()
}

func (r VolumeRequest) input() *ec2.CreateVolumeInput {
	in := &ec2.CreateVolumeInput{
		ClientToken:       aws.String(r.Token),
		AvailabilityZone:  aws.String(string(r.Zone)),
		SnapshotId:        aws.String(string(r.Snapshot)),
		VolumeType:        types.VolumeType(r.Spec.Type),
		Size:              aws.Int32(int32(r.Spec.SizeGiB)), //nolint:gosec // Validate bounds it
		TagSpecifications: tagSpecification(types.ResourceTypeVolume, r.Tags),
	}
	if r.Spec.IOPS != 0 {
		in.Iops = aws.Int32(int32(r.Spec.IOPS)) //nolint:gosec // Validate bounds it
	}
	if r.Spec.ThroughputMiB != 0 {
		in.Throughput = aws.Int32(int32(r.Spec.ThroughputMiB)) //nolint:gosec // Validate bounds it
	}
	if r.Encrypted { // false is left out: EC2 refuses it for an encrypted snapshot
		in.Encrypted = aws.Bool(true)
		if r.KMSKey != "" {
			in.KmsKeyId = aws.String(r.KMSKey)
		}
	}
	return in
}

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

func (c *Client) volumePages(ctx context.Context, in ec2.DescribeVolumesInput) ([]Volume, error) {
	op := operation{verb: "describe volumes", action: "ec2:DescribeVolumes", repeatable: true}
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
		repeatable: true, lane: c.pace.deleteVolume, priority: background,
	}
	return c.remove(ctx, op, string(id), func(ctx context.Context) error {
		_, err := c.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: aws.String(string(id))})
		return err
	})
}
