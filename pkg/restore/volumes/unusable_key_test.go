package volumes

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/preflight"
)

func TestUnusableKey_NamesWhatLostVolumesHaveInCommon(t *testing.T) {
	t.Parallel()
	type volumes []Volume
	encrypted := func(key string, generation int, seconds float64) Volume {
		return Volume{Encrypted: true, KMSKey: key, generation: generation, Seconds: seconds}
	}
	for name, row := range map[string]struct {
		volumes volumes
		key     string // "" is no reason
	}{
		"all of one key, each once":        {volumes{encrypted("k", 2, 0), encrypted("k", 2, 0), encrypted("k", 2, 0)}, "k"},
		"another key is usable":            {volumes{encrypted("k", 2, 0), encrypted("k", 2, 0), encrypted("l", 1, 3)}, "k"},
		"one of the key was made":          {volumes{encrypted("k", 2, 0), encrypted("k", 1, 3)}, ""},
		"one was made at the second try":   {volumes{encrypted("k", 2, 0), encrypted("k", 2, 3)}, ""},
		"one has not vanished yet":         {volumes{encrypted("k", 2, 0), encrypted("k", 1, 0)}, ""},
		"a single volume, once":            {volumes{encrypted("k", 2, 0)}, ""},
		"a single volume, twice":           {volumes{encrypted("k", 3, 0)}, "k"},
		"the default key":                  {volumes{encrypted("", 2, 0), encrypted("", 2, 0)}, "alias/aws/ebs"},
		"nothing is encrypted":             {volumes{{generation: 2}, {generation: 2}}, ""},
		"an encrypted one that was made":   {volumes{{generation: 2}, encrypted("k", 1, 3)}, ""},
		"nothing has vanished, or is made": {volumes{encrypted("k", 1, 0), encrypted("k", 1, 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := unusableKey(row.volumes)
			if row.key == "" {
				require.Nil(t, u)
				return
			}
			require.NotNil(t, u)
			require.Equal(t, row.key, preflight.KeyName(u.key))
		})
	}
}

// kms answers as KMS does.
type kms struct {
	key ebs.Key
	err error
}

func (k kms) DescribeKey(context.Context, string) (ebs.Key, error) { return k.key, k.err }

// Whatever KMS answers, or does not answer, the error names the key, its state and the permissions.
func TestUnusableKey_Why_NamesTheState(t *testing.T) {
	t.Parallel()
	deleted := time.Date(2026, 11, 29, 1, 2, 3, 0, time.UTC)
	for name, row := range map[string]struct {
		kms        kms
		text, hint string
	}{
		"enabled":          {kms{key: ebs.Key{State: ebs.KeyEnabled}}, "its state is Enabled, so this role may not use it", "see that its policy"},
		"disabled":         {kms{key: ebs.Key{State: ebs.KeyDisabled}}, "its state is Disabled", "aws kms enable-key --key-id k"},
		"pending deletion": {kms{key: ebs.Key{State: ebs.KeyPendingDeletion, DeletedAt: deleted}}, "PendingDeletion: KMS deletes it at 2026-11-29T01:02:03Z", "aws kms cancel-key-deletion --key-id k"},
		"unavailable":      {kms{key: ebs.Key{State: "Unavailable"}}, "its state is Unavailable", "make it usable"},
		"deleted":          {kms{err: failure.New(failure.NotFound, "", "", "no key")}, "KMS has no such key", "--kms-key"},
		"not allowed":      {kms{err: failure.New(failure.Denied, "", "", "AccessDeniedException")}, "its state could not be read (AccessDeniedException)", "aws kms describe-key --key-id k"},
		"no answer":        {kms{err: failure.New(failure.Unknown, "", "", "no route")}, "its state could not be read (no route)", "aws kms describe-key --key-id k"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := (&unusable{key: "k", lost: 6, volumes: 6}).why(t.Context(), row.kms)
			require.Equal(t, failure.Denied, failure.KindOf(err))
			require.ErrorContains(t, err, "create volumes of k: all 6 volumes")
			require.ErrorContains(t, err, row.text)
			require.Contains(t, failure.HintOf(err), row.hint)
			require.Contains(t, failure.HintOf(err), "kms:CreateGrant")
		})
	}
}

// describing is an EC2 of which only KMS is asked.
type describing struct {
	EBS
	kms
}

func (d describing) DescribeKey(ctx context.Context, id string) (ebs.Key, error) {
	return d.kms.DescribeKey(ctx, id)
}

// A key that is known not to work ends the restore at its first volume that is lost, and any other once all of its
// volumes failed: until then they are replaced.
func TestKeyAtFault_NamesTheKeyAndItsState(t *testing.T) {
	t.Parallel()
	disabled := kms{key: ebs.Key{State: ebs.KeyDisabled}}
	enabled := kms{key: ebs.Key{State: ebs.KeyEnabled}}
	silent := kms{err: failure.New(failure.Denied, "", "", "AccessDeniedException")}
	for name, row := range map[string]struct {
		kms             kms
		key             string
		failed, missing int
		text            string // "" is no reason
	}{
		"disabled, one failed":           {disabled, "k", 1, 0, "1 of 3 volumes that EC2 was to encrypt with it failed or vanished while they were made: its state is Disabled"},
		"disabled, one vanished":         {disabled, "k", 0, 1, "1 of 3 volumes"},
		"disabled, the default key":      {disabled, "", 2, 1, "create volumes of alias/aws/ebs: all 3 volumes"},
		"enabled, one failed":            {enabled, "k", 1, 0, ""},
		"enabled, all failed":            {enabled, "k", 3, 0, "all 3 volumes that EC2 was to encrypt with it failed or vanished while they were made: its state is Enabled, so this role may not use it"},
		"not readable, some failed":      {silent, "k", 2, 0, ""},
		"not readable, all failed":       {silent, "k", 3, 0, "its state could not be read (AccessDeniedException)"},
		"not readable, some only vanish": {silent, "k", 2, 1, ""},
		"not encrypted":                  {disabled, "-", 3, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := NewMaker(describing{kms: row.kms}, Owner{}, Options{}, nil, nil)
			a := &awaited{failed: map[cluster.VolumeID]ebs.VolumeState{}}
			for i := range 3 {
				m.volumes = append(m.volumes, Volume{ID: cluster.VolumeID(fmt.Sprintf("vol-%d", i)), Encrypted: row.key != "-", KMSKey: row.key})
			}
			var lost []*Volume
			for i := range row.failed + row.missing {
				lost = append(lost, &m.volumes[i])
				if i < row.failed {
					a.failed[m.volumes[i].ID] = ebs.VolumeError
				}
			}
			err := m.keyAtFault(t.Context(), a, lost)
			if row.text == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, failure.Denied, failure.KindOf(err))
			require.ErrorContains(t, err, row.text)
			require.Contains(t, failure.HintOf(err), "kms:CreateGrant")
		})
	}
}
