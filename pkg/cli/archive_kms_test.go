package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
)

const (
	archiveKey = "arn:aws:kms:us-west-2:123456789012:key/prod"
	otherKey   = "arn:aws:kms:us-west-2:123456789012:key/other"
)

// newKMS starts a KMS that has these keys, and lets the tests' process use it.
func newKMS(t *testing.T, keys ...string) *ebstest.Server {
	t.Helper()
	kms := ebstest.New(ebstest.Config{Keys: keys})
	require.NoError(t, kms.Start())
	t.Cleanup(kms.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": kms.URL(), "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s",
	} {
		t.Setenv(name, value)
	}
	return kms
}

// A KMS key unlocks a repository by the AWS credentials alone, as long as KMS lets them use it. It is added, listed, rotated
// and removed like the others, which it does not need.
func TestArchiveKey_KMS_UnlocksByItself(t *testing.T) {
	kms := newKMS(t, archiveKey, otherKey)
	url := "file://" + t.TempDir()
	identity, recipient := newIdentity(t)
	archive := func(args ...string) (ExitCode, string, string) {
		t.Helper()
		return run(t, append([]string{"archive"}, append(args, "--repo", url)...)...)
	}
	done := func(args ...string) string {
		t.Helper()
		code, out, stderr := archive(args...)
		require.Equal(t, ExitDone, code, stderr)
		return out
	}
	done("init", "--kms-key", archiveKey, "--recipient", recipient)
	require.Contains(t, done("key", "list"), "kms-1  kms   "+archiveKey)
	done("key", "add", "second", "--kms-key", otherKey)
	done("key", "rotate")
	done("key", "remove", archiveKey)
	require.NotContains(t, done("key", "list"), archiveKey)

	kms.SetKey(otherKey, ebs.Key{State: ebs.KeyDisabled})
	code, _, stderr := archive("list")
	require.EqualValues(t, 5, code, stderr)
	require.Contains(t, stderr, "hint: enable the KMS key")
	done("list", "--repo-identity", identity)
	kms.SetKey(otherKey, ebs.Key{})
	kms.RefuseKey(otherKey)
	code, _, stderr = archive("list")
	require.EqualValues(t, 7, code, stderr)
	require.Contains(t, stderr, "kms:Decrypt")
}

func TestArchiveKey_KMSKeyThatCannotBeUsed_IsRefused(t *testing.T) {
	newKMS(t, archiveKey)
	for name, row := range map[string]struct {
		keys []string
		code ExitCode
		text string
	}{
		"an alias":     {[]string{"alias/prod"}, 2, "not an alias"},
		"given twice":  {[]string{archiveKey, archiveKey}, 2, "it is given twice"},
		"unknown":      {[]string{otherKey}, 4, "does not exist"},
		"of elsewhere": {[]string{"arn:aws:kms:eu-west-1:123456789012:key/prod"}, 4, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"archive", "init", "--repo", "file://" + t.TempDir()}
			for _, key := range row.keys {
				args = append(args, "--kms-key", key)
			}
			code, _, stderr := run(t, args...)
			require.Equal(t, row.code, code, stderr)
			require.Contains(t, stderr, row.text)
		})
	}
}
