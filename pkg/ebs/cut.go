package ebs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
)

// cutTimeout is longer than other calls' timeouts: EC2 may take up to a minute under load, and an unanswered attempt
// has to be looked up by tag.
const cutTimeout = time.Minute

// Cut takes a crash-consistent multi-volume set with one CreateSnapshots call; see Snapshots. It looks up attachments
// before every attempt, except the first if the request has them. If EC2 finds those outdated, Cut describes them
// again. It waits out refusals that certainly had no effect (throttles, the 15 s spacing, limits of pending snapshots)
// until ctx ends.
//
// If the answer does not have exactly the wanted volumes, Cut returns the snapshots together with a Conflict, so that
// the caller can delete them. An instance that lacks a wanted volume is a Conflict too; then nothing was created.
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
	given, known := req.Attached[req.Instance]
	op := operation{
		verb: "create snapshots", action: ActionCreateSnapshots, tagged: true,
		timeout: cutTimeout, queue: c.pace.createSnapshots, priority: urgent,
	}
	err := c.call(ctx, op, target, func(ctx context.Context) (err error) {
		attached := given
		if !known {
			if attached, err = c.attached(ctx, req.Instance); err != nil {
				return err
			}
		}
		old := known
		known = false // the next try describes it again
		made, err = c.cut(ctx, req, wanted, attached)
		if !old || !outdated(err) {
			return err
		}
		if attached, err = c.attached(ctx, req.Instance); err != nil {
			return err
		}
		made, err = c.cut(ctx, req, wanted, attached)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, s := range made {
		c.recent.add(string(s.ID))
	}
	return made, checkSet(target, made, wanted)
}

// cut sends one CreateSnapshots that excludes all of attached but the wanted volumes.
func (c *Client) cut(
	ctx context.Context, req CutRequest, wanted []cluster.VolumeID, attached []Attachment,
) ([]Snapshot, error) {
	spec, err := only(attached, req.Instance, wanted)
	if err != nil {
		return nil, err
	}
	if err := fenced.Check(ctx); err != nil { // describing the instance may have taken long
		return nil, err
	}
	out, err := c.ec2.CreateSnapshots(ctx, &ec2.CreateSnapshotsInput{
		InstanceSpecification: spec,
		TagSpecifications:     tagSpecification(types.ResourceTypeSnapshot, req.Tags),
	})
	if err != nil {
		return nil, err
	}
	made := make([]Snapshot, 0, len(out.Snapshots))
	for _, s := range out.Snapshots {
		made = append(made, snapshotOfInfo(s))
	}
	return made, nil
}

// outdated reports whether a cut was refused, without effect, because the attachments may be outdated: an excluded
// volume has since been detached, or a wanted one attached.
func outdated(err error) bool {
	if err == nil {
		return false
	}
	kind := classify(concise(err)).kind
	return kind == failure.Usage || kind == failure.NotFound || kind == failure.Conflict
}

// checkSet compares an answer with what was asked for.
func checkSet(target string, made []Snapshot, wanted []cluster.VolumeID) error {
	if len(made) == 0 {
		return maybeHappened(failure.New(failure.Unknown, "create snapshots", target, "the answer holds no snapshots"))
	}
	got := make([]cluster.VolumeID, len(made))
	for i, s := range made {
		got[i] = s.Volume
		if s.ID == "" {
			return maybeHappened(
				failure.New(failure.Unknown, "create snapshots", target, "the answer has a snapshot without an id"))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, wanted) {
		return failure.New(failure.Conflict, "create snapshots", target,
			"ec2 cut %s where %s were wanted: the attachments changed during the call",
			strings.Join(texts(got), ", "), strings.Join(texts(wanted), ", ")).
			WithHint("delete the snapshots and run again when the instance's volumes stay attached")
	}
	return nil
}
