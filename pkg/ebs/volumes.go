package ebs

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/failure"
)

// quotaCodes are those that EC2 may answer although an earlier try with the same token made the volume:
// it checks the limits before the token.
var quotaCodes = []string{"VolumeLimitExceeded", "VolumeIOPSLimit", "MaxIOPSLimitExceeded"}

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
		repeatable: true, queue: c.pace.createVolume, priority: usual,
	}
	target := "a volume from " + string(req.Snapshot)
	err := c.call(ctx, op, target, func(ctx context.Context) error {
		out, last = c.ec2.CreateVolume(ctx, req.input())
		lost = lost || (last != nil && classify(last).retry == ambiguous)
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
	switch code := codeOf(err); {
	case code == mismatchCode:
		return Volume{}, c.mismatch(ctx, req, op, target, err)
	case slices.Contains(quotaCodes, code):
		if volume, ok := c.madeBefore(ctx, req, lost); ok {
			return volume, nil
		}
	}
	return Volume{}, err
}

// mismatchCode is EC2's refusal of a token that was used with other parameters, or whose volume is gone.
const mismatchCode = "IdempotentParameterMismatch"

// mismatch distinguishes the two meanings by looking for a volume with the request's tags, until one made by an earlier
// attempt must be visible. Without tags this is impossible, and the error stays a Conflict.
func (c *Client) mismatch(ctx context.Context, req VolumeRequest, op operation, target string, refused error) error {
	if len(req.Tags) == 0 {
		return refused
	}
	for end := c.clock.Now().Add(VisibleWithin); ; {
		asked := c.clock.Now()
		found, err := c.FindVolumes(ctx, req.Tags)
		if err != nil {
			return refused
		}
		for _, v := range found {
			if v.Snapshot == req.Snapshot && v.State.Outcome() != VolumeFailed {
				return failure.New(failure.Conflict, op.verb, target, "%w: %s is there with the same tags", refused,
					v.ID).
					WithHint("use the volume %s, or delete it first", v.ID)
			}
		}
		if !asked.Before(end) {
			return failure.New(failure.Conflict, op.verb, target, "%w: %w", errTokenBurned, refused).
				WithHint("ask again with a new client token")
		}
		if err := c.clock.Sleep(ctx, 2*time.Second); err != nil {
			return refused
		}
	}
}

// madeBefore looks for the volume of an earlier try. If an answer of this call was lost, it looks until the
// volume must be visible.
func (c *Client) madeBefore(ctx context.Context, req VolumeRequest, lost bool) (Volume, bool) {
	if len(req.Tags) == 0 {
		return Volume{}, false
	}
	for end := c.clock.Now().Add(VisibleWithin); ; {
		asked := c.clock.Now()
		found, err := c.FindVolumes(ctx, req.Tags)
		if err != nil {
			return Volume{}, false // the quota is the better answer
		}
		for _, v := range found {
			if v.Snapshot == req.Snapshot && v.Zone == req.Zone && v.State.Outcome() != VolumeFailed {
				return v, true
			}
		}
		if !lost || !asked.Before(end) || c.clock.Sleep(ctx, 2*time.Second) != nil {
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
	case r.InitializationMiB != 0 &&
		(r.InitializationMiB < MinInitializationRate || r.InitializationMiB > MaxInitializationRate):
		return refuse("an initialization rate of %d MiB/s is not possible; %d to %d are",
			r.InitializationMiB, MinInitializationRate, MaxInitializationRate)
	}
	return ValidateSpec(r.Spec)
}

func (r VolumeRequest) input() *ec2.CreateVolumeInput {
	in := &ec2.CreateVolumeInput{
		ClientToken:       aws.String(r.Token),
		AvailabilityZone:  aws.String(string(r.Zone)),
		SnapshotId:        aws.String(string(r.Snapshot)),
		VolumeType:        types.VolumeType(r.Spec.Type),
		Size:              number(r.Spec.SizeGiB),
		Iops:              number(r.Spec.IOPS),
		Throughput:        number(r.Spec.ThroughputMiB),
		TagSpecifications: tagSpecification(types.ResourceTypeVolume, r.Tags),

		VolumeInitializationRate: number(r.InitializationMiB),
	}
	if r.Encrypted { // false is left out: EC2 refuses it for an encrypted snapshot
		in.Encrypted = aws.Bool(true)
		if r.KMSKey != "" {
			in.KmsKeyId = aws.String(r.KMSKey)
		}
	}
	return in
}
