package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
)

// replaceVanished asks again, at the same time, for all volumes that were not shown for too long. With the same token
// EC2 gives the same volume, if it only hid it; a token that is burned is followed by the next one. If what has
// vanished has its KMS key in common, that is the reason, and no replacement helps.
func (r *run) replaceVanished(ctx context.Context, s *phase.Scope, wanted map[cluster.VolumeID]*Volume, shown map[cluster.VolumeID]time.Time) error {
	var missed []*Volume
	for id, v := range wanted {
		if shown[id].IsZero() {
			shown[id] = time.Now() // from now on it is missed
		}
		if time.Since(shown[id]) > r.opts.Visibility {
			missed = append(missed, v)
		}
	}
	replacements := make([]cluster.VolumeID, len(missed))
	err := parallel.Each(ctx, 0, missed, func(ctx context.Context, i int, v *Volume) (err error) {
		replacements[i], err = r.createVolume(ctx, s, v)
		return failure.Annotate(err, "create volume", fmt.Sprintf("store %s %s", v.Store, v.Role))
	})
	for i, v := range missed {
		id := replacements[i]
		if id == "" {
			continue
		}
		if id != v.ID {
			s.Warn("volume %s vanished while EC2 made it: %s takes its place", v.ID, id)
			delete(wanted, v.ID)
			v.ID, wanted[id], r.created[v.Snapshot] = id, v, id
		}
		shown[id] = time.Now()
	}
	if u := unusableKey(r.volumes); u != nil {
		return u.why(ctx, r.EBS)
	}
	return err
}

// unusable is a KMS key that every volume vanished which EC2 was to encrypt with it.
type unusable struct {
	key     string // empty is the account's default key
	volumes int
}

// unusableKey finds the key of volumes that all vanished, or nil: of several volumes each once, of a single one twice,
// as EC2 loses a volume now and then without a reason. A key with which one was made is usable.
func unusableKey(volumes []Volume) *unusable {
	type use struct{ all, vanished, times int }
	keys := map[string]use{}
	for _, v := range volumes {
		if !v.Encrypted {
			continue
		}
		u := keys[v.KMSKey]
		u.all++
		if v.generation > 1 && v.Seconds == 0 {
			u.vanished++
			u.times += v.generation - 1
		}
		keys[v.KMSKey] = u
	}
	for key, u := range keys {
		if u.vanished == u.all && u.times > 1 {
			return &unusable{key: key, volumes: u.all}
		}
	}
	return nil
}

// keyPermissions are what EC2 needs of the key in the role's name, by Amazon's page on EBS encryption.
const keyPermissions = "its policy and this role allow kms:CreateGrant, kms:Decrypt, kms:DescribeKey, kms:GenerateDataKeyWithoutPlaintext and kms:ReEncrypt*"

// why asks KMS for the key's state, and says what to do about it. Where the state may not be read the error says so.
func (u *unusable) why(ctx context.Context, keys ebs.Keys) error {
	state, do, enabled := keyState(ctx, keys, u.key)
	if enabled {
		state += ", so this role may not use it"
	}
	return failure.New(failure.Denied, "create volumes", keyName(u.key),
		"all %d volumes that EC2 was to encrypt with it vanished while they were made: %s", u.volumes, state).
		WithHint("%s; then restore again", do)
}

// failedWithKey is the error of an encrypted volume that EC2 shows as failed. A key that works is not taken for the reason.
func failedWithKey(ctx context.Context, keys ebs.Keys, key string, v ebs.Volume) error {
	state, do, enabled := keyState(ctx, keys, key)
	kind := failure.Denied
	if enabled {
		kind = failure.Corrupt
	}
	return failure.New(kind, "create volume", string(v.ID), "its state is %s, and of KMS key %s, with which EC2 was to encrypt it: %s",
		v.State, keyName(key), state).WithHint("%s; then restore again", do)
}

// keyState is the key's state, or why it is not known, and what to do about it.
func keyState(ctx context.Context, keys ebs.Keys, id string) (state, do string, enabled bool) {
	name := keyName(id)
	do = "see that " + keyPermissions
	switch key, err := keys.DescribeKey(ctx, name); {
	case failure.Is(err, failure.NotFound):
		state, do = "KMS has no such key", "use another key (--kms-key) if the snapshots are not encrypted with this one: what is cannot be read any more; else see that "+keyPermissions
	case err != nil:
		state = fmt.Sprintf("its state could not be read (%v), it is disabled, or this role may not use it", err)
		do = fmt.Sprintf("see its state (aws kms describe-key --key-id %s), and that %s", name, keyPermissions)
	case key.State == ebs.KeyEnabled:
		state, enabled = "its state is Enabled", true
	case key.State == ebs.KeyDisabled:
		state, do = "its state is Disabled", fmt.Sprintf("enable it (aws kms enable-key --key-id %s), and see that %s", name, keyPermissions)
	case key.State == ebs.KeyPendingDeletion:
		state = "its state is PendingDeletion: KMS deletes it"
		if !key.DeletedAt.IsZero() {
			state += " at " + key.DeletedAt.UTC().Format(time.RFC3339)
		}
		state += ", and then nothing reads what it encrypted"
		do = fmt.Sprintf("keep it (aws kms cancel-key-deletion --key-id %[1]s, then aws kms enable-key --key-id %[1]s), and see that %[2]s", name, keyPermissions)
	default:
		state, do = "its state is "+failure.Line(key.State), "make it usable, and see that "+keyPermissions
	}
	return state, do, enabled
}

// keyName is how a person can ask for the key.
func keyName(key string) string {
	if key == "" {
		return "alias/aws/ebs"
	}
	return key
}

// vanishes is the error of one volume that vanishes each time.
func vanishes(v *Volume) error {
	err := failure.New(failure.Corrupt, "create volume", string(v.Snapshot), "%d volumes of it, %s in %s, vanished while EC2 made them",
		v.generation, v.Spec.Type, v.Zone)
	if v.Encrypted {
		return err.WithHint("see that KMS key %s is enabled and may be used by this role, then restore again", keyName(v.KMSKey))
	}
	return err.WithHint("try another zone (--az-map) or another type (--volume-type), and see AWS Health")
}
