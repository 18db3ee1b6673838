package ebs

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// This file converts between the SDK's types and ours.

func snapshotOf(s types.Snapshot) Snapshot {
	until := aws.ToTime(s.RestoreExpiryTime)
	if !until.After(time.Now()) {
		until = time.Time{}
	}
	return Snapshot{
		ID:          cluster.SnapshotID(aws.ToString(s.SnapshotId)),
		Volume:      cluster.VolumeID(aws.ToString(s.VolumeId)),
		State:       SnapshotState(s.State),
		Message:     aws.ToString(s.StateMessage),
		Progress:    percent(aws.ToString(s.Progress)),
		StartedAt:   aws.ToTime(s.StartTime),
		CompletedAt: aws.ToTime(s.CompletionTime),
		SizeGiB:     int64(aws.ToInt32(s.VolumeSize)),
		FullBytes:   aws.ToInt64(s.FullSnapshotSizeInBytes),
		Encrypted:   aws.ToBool(s.Encrypted),
		KMSKey:      aws.ToString(s.KmsKeyId),
		// In which tier EC2 reports a snapshot that is back for some days is not documented.
		Archived: s.StorageTier == types.StorageTierArchive && until.IsZero(), RestoredUntil: until,
		Outpost: aws.ToString(s.OutpostArn),
		Owner:   aws.ToString(s.OwnerId),
		Tags:    tagsOf(s.Tags),
	}
}

func snapshotOfInfo(s types.SnapshotInfo) Snapshot {
	return Snapshot{
		ID:     cluster.SnapshotID(aws.ToString(s.SnapshotId)),
		Volume: cluster.VolumeID(aws.ToString(s.VolumeId)),
		// Emulators leave the state out; a set that EC2 has just accepted is pending.
		State:     SnapshotState(orElse(string(s.State), string(SnapshotPending))),
		Progress:  percent(aws.ToString(s.Progress)),
		StartedAt: aws.ToTime(s.StartTime),
		SizeGiB:   int64(aws.ToInt32(s.VolumeSize)),
		Encrypted: aws.ToBool(s.Encrypted),
		Owner:     aws.ToString(s.OwnerId),
		Tags:      tagsOf(s.Tags),
	}
}

func volumeOf(v types.Volume) Volume {
	out := Volume{
		ID:    cluster.VolumeID(aws.ToString(v.VolumeId)),
		State: VolumeState(v.State),
		Zone:  cluster.Zone(aws.ToString(v.AvailabilityZone)),
		Spec: cluster.VolumeSpec{
			Type:          string(v.VolumeType),
			SizeGiB:       int64(aws.ToInt32(v.Size)),
			IOPS:          int64(aws.ToInt32(v.Iops)),
			ThroughputMiB: int64(aws.ToInt32(v.Throughput)),
		},
		Snapshot:  cluster.SnapshotID(aws.ToString(v.SnapshotId)),
		Encrypted: aws.ToBool(v.Encrypted),
		KMSKey:    aws.ToString(v.KmsKeyId),
		CreatedAt: aws.ToTime(v.CreateTime),
		Tags:      tagsOf(v.Tags),
		Outpost:   aws.ToString(v.OutpostArn),
	}
	for _, a := range v.Attachments {
		if a.State != types.VolumeAttachmentStateDetached {
			out.Instance = cluster.InstanceID(aws.ToString(a.InstanceId))
		}
	}
	out.Spec = settable(out.Spec)
	return out
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// percent reads "42%"; what it cannot read is 0.
func percent(s string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(s), "%"))
	if err != nil {
		return 0
	}
	return min(max(n, 0), 100)
}

func tagsOf(in []types.Tag) Tags {
	tags := make(Tags, len(in))
	for _, t := range in {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return tags
}

// tagSpecification sorts the keys: the same client token must come with the same parameters.
func tagSpecification(resource types.ResourceType, tags Tags) []types.TagSpecification {
	if len(tags) == 0 {
		return nil
	}
	spec := types.TagSpecification{ResourceType: resource}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		spec.Tags = append(spec.Tags, types.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return []types.TagSpecification{spec}
}

func tagFilters(tags Tags) []types.Filter {
	filters := make([]types.Filter, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		filters = append(filters, filter("tag:"+key, literal(tags[key])))
	}
	return filters
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// literal escapes what a filter value takes for wildcards.
func literal(value string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(value)
}

func texts[T ~string](ids []T) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}
