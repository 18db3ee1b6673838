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

// changingCodes are those by which EC2 may refuse a modification that an earlier try has begun already.
var changingCodes = []string{
	"IncorrectModificationState", "VolumeModificationRateExceeded", "InvalidParameterCombination",
}

// ModifyVolume asks for another type, size, IOPS or throughput; see Modifier. Zero fields of spec are kept from the
// volume where its type allows it, by the rules of ResolveSpec. Before it asks, it describes the volume: what the
// volume has already costs none of the few modifications that EC2 allows.
func (c *Client) ModifyVolume(ctx context.Context, id cluster.VolumeID, spec cluster.VolumeSpec) (Modification, error) {
	const verb = "modify volume"
	if id == "" {
		return Modification{}, failure.New(failure.Usage, verb, "", "no id given")
	}
	found, err := c.DescribeVolumes(ctx, []cluster.VolumeID{id})
	if err != nil {
		return Modification{}, failure.Annotate(err, verb, string(id))
	}
	if len(found) != 1 {
		return Modification{}, failure.New(failure.NotFound, verb, string(id), "no such volume")
	}
	now := found[0].Spec
	wanted, err := ResolveSpec(spec, now, now.SizeGiB)
	if err != nil {
		return Modification{}, err
	}
	if satisfies(now, wanted) {
		return Modification{Volume: id, State: ModificationCompleted, Progress: 100, From: now, To: now}, nil
	}
	var out *ec2.ModifyVolumeOutput
	op := operation{
		verb: verb, action: ActionModifyVolume, repeatable: true, queue: c.pace.modifyVolume, priority: usual,
	}
	err = c.call(ctx, op, string(id), func(ctx context.Context) (err error) {
		out, err = c.ec2.ModifyVolume(ctx, modifyInput(id, wanted))
		return err
	})
	switch {
	case err == nil && out.VolumeModification == nil:
		return Modification{}, failure.New(failure.Unknown, verb, string(id), "the answer has no modification")
	case err == nil:
		return modificationOf(*out.VolumeModification), nil
	case slices.Contains(changingCodes, codeOf(err)):
		if begun, ok := c.begun(ctx, id, wanted); ok {
			return begun, nil
		}
	}
	return Modification{}, err
}

// begun is the volume's newest modification if it makes the volume what is wanted.
func (c *Client) begun(ctx context.Context, id cluster.VolumeID, wanted cluster.VolumeSpec) (Modification, bool) {
	found, err := c.Modifications(ctx, []cluster.VolumeID{id})
	if err != nil || len(found) != 1 { // the refusal is the better answer
		return Modification{}, false
	}
	m := found[0]
	return m, m.State != ModificationFailed && satisfies(m.To, wanted)
}

// satisfies reports whether a volume of spec has is what is wanted. What is left to the type is not compared.
func satisfies(has, wanted cluster.VolumeSpec) bool {
	return has.Type == wanted.Type && has.SizeGiB == wanted.SizeGiB &&
		(wanted.IOPS == 0 || has.IOPS == wanted.IOPS) &&
		(wanted.ThroughputMiB == 0 || has.ThroughputMiB == wanted.ThroughputMiB)
}

func modifyInput(id cluster.VolumeID, spec cluster.VolumeSpec) *ec2.ModifyVolumeInput {
	return &ec2.ModifyVolumeInput{
		VolumeId:   aws.String(string(id)),
		VolumeType: types.VolumeType(spec.Type),
		Size:       number(spec.SizeGiB),
		Iops:       number(spec.IOPS),
		Throughput: number(spec.ThroughputMiB),
	}
}

// Modifications returns the newest modification of each of these volumes, in no particular order; one that was
// never modified, or that does not exist, is left out. Kinds: Denied, Limited, Usage, Unknown.
func (c *Client) Modifications(ctx context.Context, ids []cluster.VolumeID) ([]Modification, error) {
	op := operation{
		verb: "describe volume modifications", action: "ec2:DescribeVolumesModifications",
		repeatable: true, queue: c.pace.modifications, priority: usual,
	}
	newest := map[cluster.VolumeID]Modification{}
	for batch := range slices.Chunk(unique(ids), describeBatch) {
		in := ec2.DescribeVolumesModificationsInput{
			Filters: []types.Filter{filter("volume-id", batch...)}, MaxResults: aws.Int32(describeSmallPage),
		}
		found, err := pages(ctx, func(ctx context.Context, token *string) ([]types.VolumeModification, *string, error) {
			in.NextToken = token
			var out *ec2.DescribeVolumesModificationsOutput
			err := c.call(ctx, op, "", func(ctx context.Context) (err error) {
				out, err = c.ec2.DescribeVolumesModifications(ctx, &in)
				return err
			})
			if err != nil {
				return nil, nil, err
			}
			return out.VolumesModifications, out.NextToken, nil
		})
		if err != nil {
			return nil, err
		}
		for _, raw := range found {
			m := modificationOf(raw)
			if old, ok := newest[m.Volume]; !ok || m.StartedAt.After(old.StartedAt) {
				newest[m.Volume] = m
			}
		}
	}
	out := make([]Modification, 0, len(newest))
	for _, m := range newest {
		out = append(out, m)
	}
	return out, nil
}

func modificationOf(m types.VolumeModification) Modification {
	spec := func(kind types.VolumeType, size, iops, throughput *int32) cluster.VolumeSpec {
		return settable(cluster.VolumeSpec{
			Type: string(kind), SizeGiB: int64(aws.ToInt32(size)),
			IOPS: int64(aws.ToInt32(iops)), ThroughputMiB: int64(aws.ToInt32(throughput)),
		})
	}
	return Modification{
		Volume:    cluster.VolumeID(aws.ToString(m.VolumeId)),
		State:     ModificationState(m.ModificationState),
		Message:   aws.ToString(m.StatusMessage),
		Progress:  int(min(max(aws.ToInt64(m.Progress), 0), 100)),
		From:      spec(m.OriginalVolumeType, m.OriginalSize, m.OriginalIops, m.OriginalThroughput),
		To:        spec(m.TargetVolumeType, m.TargetSize, m.TargetIops, m.TargetThroughput),
		StartedAt: aws.ToTime(m.StartTime),
		EndedAt:   aws.ToTime(m.EndTime),
	}
}
