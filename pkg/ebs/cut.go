package ebs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// cutTimeout is longer than that of other calls: EC2 was seen to take up to a minute under load, and a try
// that is given up has to be looked up by tag.
const cutTimeout = time.Minute

// Cut takes a crash-consistent multi-volume set by one CreateSnapshots call; see Snapshots. What is
// attached is looked up before every try. Refusals that certainly had no effect (throttles, the 15 s
// spacing, the limits of pending snapshots) are waited out until ctx ends.
//
// If the answer does not hold exactly the wanted volumes, the snapshots are returned together with a
// Conflict, so that the caller can delete them. An instance that lacks a wanted volume is a Conflict too,
// and then nothing was made.
func (c *Client) Cut(ctx context.Context, req CutRequest) ([]Snapshot, error) {
	target := string(req.Instance)
	wanted := slices.Clone(req.Volumes)
	slices.Sort(wanted)
	switch {
	case req.Instance == "":
		return nil, failure.New(failure.Usage, "create snapshots", "", "no instance given")
	case len(wanted) == 0:
		return nil, failure.New(failure.Usage, "create snapshots", target, "no volumes given")
	case len(slices.Compact(slices.Clone(wanted))) != len(wanted):
		return nil, failure.New(failure.Usage, "create snapshots", target, "a volume is given twice")
	}
	var made []Snapshot
	op := operation{
		verb: "create snapshots", action: ActionCreateSnapshots, tagged: true,
		timeout: cutTimeout, limiter: c.pace.createSnapshots,
	}
	err := c.call(ctx, op, target, func(ctx context.Context) error {
		attached, err := c.attachments(ctx, req.Instance)
		if err != nil {
			return err
		}
		spec, err := attached.only(req.Instance, wanted)
		if err != nil {
			return err
		}
		out, err := c.ec2.CreateSnapshots(ctx, &ec2.CreateSnapshotsInput{
			InstanceSpecification: spec,
			TagSpecifications:     tagSpecification(types.ResourceTypeSnapshot, req.Tags),
		})
		if err != nil {
			return err
		}
		for _, s := range out.Snapshots {
			made = append(made, snapshotOfInfo(s))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range made {
		c.recent.add(string(s.ID))
	}
	return made, checkSet(target, made, wanted)
}

// checkSet compares an answer with what was asked for.
func checkSet(target string, made []Snapshot, wanted []cluster.VolumeID) error {
	if len(made) == 0 {
		return failure.New(failure.Unknown, "create snapshots", target, "the answer holds no snapshots")
	}
	got := make([]cluster.VolumeID, len(made))
	for i, s := range made {
		got[i] = s.Volume
		if s.ID == "" {
			return failure.New(failure.Unknown, "create snapshots", target, "the answer has a snapshot without an id")
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, wanted) {
		return failure.New(failure.Conflict, "create snapshots", target, "ec2 cut %s where %s were wanted: the attachments changed during the call",
			strings.Join(texts(got), ", "), strings.Join(texts(wanted), ", ")).
			WithHint("delete the snapshots and run again when the instance's volumes stay attached")
	}
	return nil
}

// attachment is one volume of an instance.
type attachment struct {
	volume cluster.VolumeID
	boot   bool
	state  types.AttachmentStatus
}

type attachments []attachment

// attachments asks what is attached now. It asks by filter and page: calls of that form have a bucket twice
// as large as lists of ids.
func (c *Client) attachments(ctx context.Context, id cluster.InstanceID) (attachments, error) {
	op := operation{verb: "describe instances", action: "ec2:DescribeInstances", repeatable: true}
	var (
		found attachments
		seen  bool
	)
	in := ec2.DescribeInstancesInput{
		Filters: []types.Filter{filter("instance-id", string(id))}, MaxResults: aws.Int32(describePage),
	}
	_, err := pages(ctx, func(ctx context.Context, token *string) ([]attachment, *string, error) {
		in.NextToken = token
		var out *ec2.DescribeInstancesOutput
		err := c.call(ctx, op, string(id), func(ctx context.Context) (err error) {
			out, err = c.ec2.DescribeInstances(ctx, &in)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
		for _, reservation := range out.Reservations {
			for _, instance := range reservation.Instances {
				if aws.ToString(instance.InstanceId) == string(id) {
					seen, found = true, attachmentsOf(instance)
				}
			}
		}
		return nil, out.NextToken, nil
	})
	if err != nil {
		return nil, err
	}
	if !seen {
		return nil, failure.New(failure.NotFound, op.verb, string(id), "no such instance")
	}
	return found, nil
}

func attachmentsOf(instance types.Instance) attachments {
	var found attachments
	for _, mapping := range instance.BlockDeviceMappings {
		if mapping.Ebs == nil || mapping.Ebs.Status == types.AttachmentStatusDetached {
			continue
		}
		found = append(found, attachment{
			volume: cluster.VolumeID(aws.ToString(mapping.Ebs.VolumeId)),
			boot:   aws.ToString(mapping.DeviceName) == aws.ToString(instance.RootDeviceName),
			state:  mapping.Ebs.Status,
		})
	}
	return found
}

// only is the specification that leaves out every volume but the wanted ones.
func (a attachments) only(id cluster.InstanceID, wanted []cluster.VolumeID) (*types.InstanceSpecification, error) {
	spec := &types.InstanceSpecification{InstanceId: aws.String(string(id)), ExcludeBootVolume: aws.Bool(true)}
	ready := 0
	for _, have := range a {
		switch {
		case !slices.Contains(wanted, have.volume):
			if !have.boot { // EC2 refuses the boot volume in the list
				spec.ExcludeDataVolumeIds = append(spec.ExcludeDataVolumeIds, string(have.volume))
			}
		case have.state != types.AttachmentStatusAttached:
			return nil, failure.New(failure.Conflict, "create snapshots", string(id), "%s is %s", have.volume, have.state)
		default:
			ready++
			if have.boot {
				spec.ExcludeBootVolume = aws.Bool(false)
			}
		}
	}
	if ready != len(wanted) {
		return nil, failure.New(failure.Conflict, "create snapshots", string(id), "wanted %s but only these are attached: %s",
			strings.Join(texts(wanted), ", "), a).
			WithHint("run again when the store's pod is back with all its volumes on one instance")
	}
	return spec, nil
}

// String lists the volumes.
func (a attachments) String() string {
	ids := make([]string, len(a))
	for i, have := range a {
		ids[i] = string(have.volume)
	}
	return strings.Join(ids, ", ")
}
