package preflight

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Key is the state of a KMS key, or why it is unknown, and what to do.
type Key struct {
	Name      string
	State, Do string
	Known     bool // KMS answered
	Missing   bool // KMS has no such key
	Enabled   bool
}

// KeyPermissions are the role's permissions that EC2 needs on a key, by Amazon's page on EBS encryption.
const KeyPermissions = "its policy and this role allow kms:CreateGrant, kms:Decrypt, kms:DescribeKey, " +
	"kms:GenerateDataKeyWithoutPlaintext and kms:ReEncrypt*"

// KeyName is the key's name for display and look-up; "" is the account's default key.
func KeyName(key string) string {
	if key == "" {
		return "alias/aws/ebs"
	}
	return key
}

// DescribeKey asks KMS for the state of a key.
func DescribeKey(ctx context.Context, keys ebs.Keys, id string) Key {
	k := Key{Name: KeyName(id), Known: true, Do: "see that " + KeyPermissions}
	switch key, err := keys.DescribeKey(ctx, k.Name); {
	case failure.Is(err, failure.NotFound):
		k.Missing, k.State, k.Do = true, "KMS has no such "+
			"key", "use another key (--kms-key) if the snapshots are not encrypted with this one: what is cannot be "+
			"read any more; else see that "+KeyPermissions
	case err != nil:
		k.Known = false
		k.State = fmt.Sprintf("its state could not be read (%v), it is disabled, or this role may not use it", err)
		k.Do = fmt.Sprintf("see its state (aws kms describe-key --key-id %s), and that %s", k.Name, KeyPermissions)
	case key.State == ebs.KeyEnabled:
		k.State, k.Enabled = "its state is Enabled", true
	case key.State == ebs.KeyDisabled:
		k.State, k.Do = "its state is Disabled", fmt.Sprintf(
			"enable it (aws kms enable-key --key-id %s), and see that %s", k.Name, KeyPermissions)
	case key.State == ebs.KeyPendingDeletion:
		k.State = "its state is PendingDeletion: KMS deletes it"
		if !key.DeletedAt.IsZero() {
			k.State += " at " + key.DeletedAt.UTC().Format(time.RFC3339)
		}
		k.State += ", and then nothing reads what it encrypted"
		k.Do = fmt.Sprintf("keep it (aws kms cancel-key-deletion --key-id %[1]s, then aws kms enable-key --key-id "+
			"%[1]s), and see that %[2]s", k.Name, KeyPermissions)
	default:
		k.State, k.Do = "its state is "+failure.Line(key.State), "make it usable, and see that "+KeyPermissions
	}
	return k
}

// DescribeKeys asks KMS once for the state of each of these keys, in order. The account's default key is left out: only
// EC2 knows which one it is.
func DescribeKeys(ctx context.Context, keys ebs.Keys, ids []string) []Key {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	found := make([]Key, len(ids))
	_ = parallel.Each(ctx, 0, ids, func(ctx context.Context, i int, id string) error {
		found[i] = DescribeKey(ctx, keys, id)
		return nil
	})
	return found
}

// Refusal is the error for a key that cannot be used; nil for one that is enabled, or whose state is unknown.
func (k Key) Refusal() error {
	if k.Enabled || !k.Known {
		return nil
	}
	return failure.New(failure.Unready, "check KMS key", k.Name, "%s", k.State).WithHint("%s", k.Do)
}
