package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// unusable is a KMS key with which EC2 lost volumes.
type unusable struct {
	key           string // empty is the account's default key
	lost, volumes int
}

// keyAtFault reports whether a KMS key is why volumes are lost: it is not enabled, or all of its volumes failed. A key
// whose state cannot be read is at fault once all of its volumes are lost.
func (m *Maker) keyAtFault(ctx context.Context, a *awaited, lost []*Volume) error {
	of := map[string]*unusable{}
	for _, v := range lost {
		if v.Encrypted && of[v.KMSKey] == nil {
			of[v.KMSKey] = &unusable{key: v.KMSKey}
		}
		if v.Encrypted {
			of[v.KMSKey].lost++
		}
	}
	for i := range m.plan.Volumes {
		if v := &m.plan.Volumes[i]; v.Encrypted && of[v.KMSKey] != nil {
			of[v.KMSKey].volumes++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(of)) {
		u := of[key]
		answer := describeKey(ctx, m.ec2, key)
		if answer.known && !answer.enabled || u.allFailed(a, lost) {
			return u.because(answer)
		}
	}
	return nil
}

// allFailed reports whether EC2 shows all of the key's volumes, several, as failed.
func (u *unusable) allFailed(a *awaited, lost []*Volume) bool {
	failed := 0
	for _, v := range lost {
		if v.Encrypted && v.KMSKey == u.key && a.failed[v.ID] != "" {
			failed++
		}
	}
	return failed > 1 && failed == u.volumes
}

// unusableKey returns the key whose volumes were all lost, or nil: several volumes once each, or a single one twice, as
// EC2 occasionally loses a volume for no reason. A key with which a volume was made is usable.
func unusableKey(volumes []Volume) *unusable {
	type use struct{ all, lost, times int }
	keys := map[string]use{}
	for _, v := range volumes {
		if !v.Encrypted {
			continue
		}
		u := keys[v.KMSKey]
		u.all++
		if v.generation > 1 && v.Seconds == 0 {
			u.lost++
			u.times += v.generation - 1
		}
		keys[v.KMSKey] = u
	}
	for key, u := range keys {
		if u.lost == u.all && u.times > 1 {
			return &unusable{key: key, lost: u.all, volumes: u.all}
		}
	}
	return nil
}

// keyPermissions are the role's permissions that EC2 needs on the key, by Amazon's page on EBS encryption.
const keyPermissions = "its policy and this role allow kms:CreateGrant, kms:Decrypt, kms:DescribeKey, " +
	"kms:GenerateDataKeyWithoutPlaintext and kms:ReEncrypt*"

// why reads the key's state from KMS and returns what to do. If it may not be read the error reports that.
func (u *unusable) why(ctx context.Context, keys ebs.Keys) error {
	return u.because(describeKey(ctx, keys, u.key))
}

func (u *unusable) because(answer keyAnswer) error {
	state, count := answer.state, fmt.Sprintf("all %d", u.volumes)
	if answer.enabled {
		state += ", so this role may not use it"
	}
	if u.lost != u.volumes {
		count = fmt.Sprintf("%d of %d", u.lost, u.volumes)
	}
	return failure.New(failure.Denied, "create volumes", keyName(u.key),
		"%s volumes that EC2 was to encrypt with it failed or vanished while they were made: %s", count, state).
		WithHint("%s; then restore again", answer.do)
}

// keyAnswer is a key's state, or why it is unknown, and what to do.
type keyAnswer struct {
	state, do      string
	known, enabled bool
}

// describeKey asks KMS for the state of a key.
func describeKey(ctx context.Context, keys ebs.Keys, id string) keyAnswer {
	name := keyName(id)
	a := keyAnswer{do: "see that " + keyPermissions, known: true}
	switch key, err := keys.DescribeKey(ctx, name); {
	case failure.Is(err, failure.NotFound):
		a.state, a.do = "KMS has no such "+
			"key", "use another key (--kms-key) if the snapshots are not encrypted with this one: what is cannot be "+
			"read any more; else see that "+keyPermissions
	case err != nil:
		a.known = false
		a.state = fmt.Sprintf("its state could not be read (%v), it is disabled, or this role may not use it", err)
		a.do = fmt.Sprintf("see its state (aws kms describe-key --key-id %s), and that %s", name, keyPermissions)
	case key.State == ebs.KeyEnabled:
		a.state, a.enabled = "its state is Enabled", true
	case key.State == ebs.KeyDisabled:
		a.state, a.do = "its state is Disabled", fmt.Sprintf(
			"enable it (aws kms enable-key --key-id %s), and see that %s", name, keyPermissions)
	case key.State == ebs.KeyPendingDeletion:
		a.state = "its state is PendingDeletion: KMS deletes it"
		if !key.DeletedAt.IsZero() {
			a.state += " at " + key.DeletedAt.UTC().Format(time.RFC3339)
		}
		a.state += ", and then nothing reads what it encrypted"
		a.do = fmt.Sprintf("keep it (aws kms cancel-key-deletion --key-id %[1]s, then aws kms enable-key --key-id "+
			"%[1]s), and see that %[2]s", name, keyPermissions)
	default:
		a.state, a.do = "its state is "+failure.Line(key.State), "make it usable, and see that "+keyPermissions
	}
	return a
}

// keyName is the key's name for display and look-up.
func keyName(key string) string {
	if key == "" {
		return "alias/aws/ebs"
	}
	return key
}
