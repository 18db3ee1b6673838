package ebs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// OwnKeyAlias is that of the key for EBS which AWS makes for an account in a region, and does not have before its first
// use.
const OwnKeyAlias = "alias/aws/ebs"

// DefaultKey is the key with which EC2 encrypts in the client's region if a call names none.
type DefaultKey struct {
	Name   string // an ARN, an id, or an alias as alias/aws/ebs
	Always bool   // also the copies of unencrypted snapshots
}

// DefaultKey asks EC2 for that key, which the account may have chosen. Kinds: Denied (ec2:GetEbsDefaultKmsKeyId,
// ec2:GetEbsEncryptionByDefault), Limited, Unknown.
func (c *Client) DefaultKey(ctx context.Context) (DefaultKey, error) {
	var found DefaultKey
	always := operation{
		verb: "ask for encryption by default", action: "ec2:GetEbsEncryptionByDefault",
		repeatable: true, priority: usual,
	}
	err := c.call(ctx, always, c.Region(), func(ctx context.Context) error {
		out, err := c.ec2.GetEbsEncryptionByDefault(ctx, &ec2.GetEbsEncryptionByDefaultInput{})
		if err == nil {
			found.Always = aws.ToBool(out.EbsEncryptionByDefault)
		}
		return err
	})
	if err != nil {
		return found, err
	}
	key := operation{
		verb: "ask for the default key", action: "ec2:GetEbsDefaultKmsKeyId",
		repeatable: true, priority: usual,
	}
	err = c.call(ctx, key, c.Region(), func(ctx context.Context) error {
		out, err := c.ec2.GetEbsDefaultKmsKeyId(ctx, &ec2.GetEbsDefaultKmsKeyIdInput{})
		if err == nil {
			found.Name = aws.ToString(out.KmsKeyId)
		}
		return err
	})
	return found, err
}
