package ebs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tisnap/tisnap/pkg/failure"
)

// PutTags sends one CreateTags, again while EC2 does not show what was made a moment ago.
func (c *Client) PutTags(ctx context.Context, resource string, tags Tags) error {
	op := operation{
		verb: "put tags", action: "ec2:CreateTags", repeatable: true, queue: c.pace.createTags, priority: usual,
	}
	spec := tagSpecification("", tags)
	if resource == "" || len(spec) == 0 {
		return failure.New(failure.Usage, op.verb, resource, "no resource or no tags are given")
	}
	for end := c.clock.Now().Add(visibleWithin); ; {
		err := c.call(ctx, op, resource, func(ctx context.Context) error {
			_, err := c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{resource}, Tags: spec[0].Tags})
			return err
		})
		if !failure.Is(err, failure.NotFound) || !c.recent.has(resource) || !c.clock.Now().Before(end) {
			return err
		}
		if c.clock.Sleep(ctx, throttleStart) != nil {
			return err
		}
	}
}
