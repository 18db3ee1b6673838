package ebs

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// keyTimeout bounds the question for a key's state: it is asked for a message, where KMS may not be reachable at all.
const keyTimeout = 10 * time.Second

// DescribeKey asks KMS for the state of a key; see Keys.
func (c *Client) DescribeKey(ctx context.Context, key string) (Key, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	var found Key
	op := operation{verb: "describe kms key", action: "kms:DescribeKey", repeatable: true, priority: usual}
	err := c.call(ctx, op, key, func(ctx context.Context) error {
		out, err := c.kms.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: aws.String(key)})
		if err != nil {
			return err
		}
		if m := out.KeyMetadata; m != nil {
			found = Key{
				ARN: aws.ToString(m.Arn), State: string(m.KeyState), DeletedAt: aws.ToTime(m.DeletionDate),
			}
		}
		return nil
	})
	return found, err
}
