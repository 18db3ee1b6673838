package ebs

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tisnap/tisnap/pkg/failure"
)

// maxTagged is how many resources one CreateTags takes.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateTags.html
const maxTagged = 1000

// PutTags sends one CreateTags, again while EC2 does not show what was made a moment ago.
func (c *Client) PutTags(ctx context.Context, resources []string, tags Tags) error {
	op := operation{
		verb: "put tags", action: "ec2:CreateTags", repeatable: true, queue: c.pace.createTags, priority: usual,
	}
	spec := tagSpecification("", tags)
	target := strings.Join(resources[:min(1, len(resources))], "")
	if target == "" || len(resources) > maxTagged || len(spec) == 0 {
		return failure.New(failure.Usage, op.verb, target,
			"%d resources are given, and %d tags: want 1 to %d, and one at least", len(resources), len(tags), maxTagged)
	}
	for end := c.clock.Now().Add(VisibleWithin); ; {
		err := c.call(ctx, op, target, func(ctx context.Context) error {
			_, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: resources, Tags: spec[0].Tags})
			return err
		})
		if !failure.Is(err, failure.NotFound) || !slices.ContainsFunc(resources, c.recent.has) ||
			!c.clock.Now().Before(end) {
			return err
		}
		if c.clock.Sleep(ctx, throttleStart) != nil {
			return err
		}
	}
}
