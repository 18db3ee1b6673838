package ebs

import (
	"context"
	"time"
)

// KeyEnabled is the state of a usable KMS key; KeyDisabled and KeyPendingDeletion are those of a disabled one and of
// one scheduled for deletion. There are others.
const (
	KeyEnabled         = "Enabled"
	KeyDisabled        = "Disabled"
	KeyPendingDeletion = "PendingDeletion"
)

// Key is KMS's description of a key.
type Key struct {
	ARN   string // of the key itself, whatever it was asked for by
	State string
	// DeletedAt is when KMS deletes it, if that is pending.
	DeletedAt time.Time
}

// Keys describes KMS keys. It is optional for a restore, and improves its messages.
type Keys interface {
	// DescribeKey asks KMS for the state of a key: an id, an ARN, or an alias as alias/aws/ebs. It is asked once, for
	// 10 s at most. Kinds: Denied (kms:DescribeKey), NotFound, Limited, Unknown.
	DescribeKey(ctx context.Context, key string) (Key, error)
}

// Encryption encrypts small secrets, as a repository's key, by KMS keys that are given by their ARNs, in the client's
// region.
type Encryption interface {
	// EncryptByKey encrypts at most 4,096 bytes. Kinds: Denied (kms:Encrypt), NotFound, Unready (the key is disabled,
	// or is to be deleted), Limited, Unknown.
	EncryptByKey(ctx context.Context, key string, plain []byte, about map[string]string) (sealed []byte, err error)
	// DecryptByKey decrypts what EncryptByKey returned for the same key and context. Kinds: as of EncryptByKey, and
	// Corrupt or Denied, if it is of another key or context, or was changed.
	DecryptByKey(ctx context.Context, key string, sealed []byte, about map[string]string) (plain []byte, err error)
}
