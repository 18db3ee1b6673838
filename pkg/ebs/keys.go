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

// encryptTimeout bounds the encryption or decryption of a secret.
const encryptTimeout = time.Minute

// EncryptByKey encrypts a secret by a KMS key; see Encryption.
func (c *Client) EncryptByKey(
	ctx context.Context, key string, plain []byte, about map[string]string,
) (sealed []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, encryptTimeout)
	defer cancel()
	op := operation{verb: "encrypt by kms key", action: "kms:Encrypt", repeatable: true, priority: usual}
	err = c.call(ctx, op, key, func(ctx context.Context) error {
		out, err := c.kms.Encrypt(ctx, &kms.EncryptInput{
			KeyId: aws.String(key), Plaintext: plain, EncryptionContext: about,
		})
		if err == nil {
			sealed = out.CiphertextBlob
		}
		return err
	})
	return sealed, err
}

// DecryptByKey decrypts a secret by a KMS key; see Encryption.
func (c *Client) DecryptByKey(
	ctx context.Context, key string, sealed []byte, about map[string]string,
) (plain []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, encryptTimeout)
	defer cancel()
	op := operation{verb: "decrypt by kms key", action: "kms:Decrypt", repeatable: true, priority: usual}
	err = c.call(ctx, op, key, func(ctx context.Context) error {
		out, err := c.kms.Decrypt(ctx, &kms.DecryptInput{
			KeyId: aws.String(key), CiphertextBlob: sealed, EncryptionContext: about,
		})
		if err == nil {
			plain = out.Plaintext
		}
		return err
	})
	return plain, err
}
