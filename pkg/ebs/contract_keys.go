package ebs

import (
	"context"
	"time"
)

// KeyEnabled is the state of a KMS key that can be used, and KeyDisabled and KeyPendingDeletion are those of one that a
// person has turned off, or KMS is about to delete; there are others.
const (
	KeyEnabled         = "Enabled"
	KeyDisabled        = "Disabled"
	KeyPendingDeletion = "PendingDeletion"
)

// Key is what KMS says of a key.
type Key struct {
	State string
	// DeletedAt is when KMS deletes it, if that is pending.
	DeletedAt time.Time
}

// Keys asks about KMS keys. A restore works without: it says more with it.
type Keys interface {
	// DescribeKey asks KMS for the state of a key: an id, an ARN, or an alias as alias/aws/ebs. It is asked once, for
	// 10 s at most. Kinds: Denied (kms:DescribeKey), NotFound, Limited, Unknown.
	DescribeKey(ctx context.Context, key string) (Key, error)
}
