package tests

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// backedUp starts a testbed with one backup of prod, whose volumes are encrypted with a key.
func backedUp(t *testing.T, cfg testbed.Config, key string) *place {
	t.Helper()
	p := newPlace(t, cfg)
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	for _, v := range p.bed.EC2.Volumes() {
		require.NoError(t, p.bed.EC2.Encrypt(v.ID, key))
	}
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	return p
}

// dryRun runs a backup or a restore as a dry run, and requires that it changes nothing.
func (p *place) dryRun(t *testing.T, command string, more ...string) ending {
	t.Helper()
	args := []string{"backup", prod.String()}
	if command == "restore" {
		args = []string{"restore", string(firstBackup), "--to", "tidb/copy"}
	}
	return p.refused(t, append(args, append(more, "--storage", whole, "--dry-run")...)...)
}

// A storage in which backups were made may be read-only now, and a run has to write its lock there.
func TestDryRun_StorageIsReadOnly_IsRefused(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	p := backedUp(t, testbed.Config{Faults: faults}, "key")
	for _, command := range []string{"backup", "restore"} {
		for _, missing := range []string{"PutObject", "DeleteObject"} {
			require.NoError(t, faults.Add(fault.Rule{Point: "s3." + missing, Position: fault.Before, Code: "AccessDenied", Times: -1}))
			e := p.dryRun(t, command)
			assert.EqualValues(t, 7, e.code, "%s: %s", command, e.stderr)
			assert.Contains(t, e.line("hint: "), "grant s3:"+missing+" on arn:aws:s3:::", command)
			faults.Clear()
		}
		e := p.dryRun(t, command)
		assert.Equal(t, cli.ExitDone, e.code, "%s: %s", command, e.stderr)
	}
}

// EC2's own dry run does not look at the key: it accepts a volume with an unusable one, which then vanishes.
func TestDryRun_KMSKeyIsUnusable_IsRefused(t *testing.T) {
	t.Parallel()
	const key, other = "arn:aws:kms:us-west-2:123456789012:key/one", "arn:aws:kms:us-west-2:123456789012:key/other"
	p := backedUp(t, testbed.Config{}, key)
	refused := func(e ending, key, state string) {
		t.Helper()
		assert.EqualValues(t, 5, e.code, e.stderr)
		assert.Contains(t, e.line("error: "), "check KMS key of "+key+": "+state)
		assert.NotEmpty(t, e.line("hint: "))
	}
	refused(p.dryRun(t, "restore", "--kms-key", other), other, "KMS has no such key")
	p.bed.EC2.SetKey(other, ebs.Key{State: ebs.KeyPendingDeletion})
	refused(p.dryRun(t, "restore", "--kms-key", other), other, "its state is PendingDeletion")
	p.bed.EC2.DeleteKey(other)
	refused(p.dryRun(t, "restore", "--kms-key", other), other, "KMS has no such key")

	p.bed.EC2.SetKey(key, ebs.Key{State: ebs.KeyDisabled})
	refused(p.dryRun(t, "restore"), key, "its state is Disabled")
	e := p.dryRun(t, "backup")
	assert.Equal(t, cli.ExitDone, e.code, "it may be enabled again: %s", e.stderr)
	assert.Contains(t, e.stderr, "no volume can be restored while KMS key "+key+" is unusable: its state is Disabled")
	p.bed.EC2.DeleteKey(key)
	refused(p.dryRun(t, "backup"), key, "KMS has no such key")

	p.bed.EC2.Deny("DescribeKey")
	for _, command := range []string{"backup", "restore"} {
		e := p.dryRun(t, command)
		assert.Equal(t, cli.ExitDone, e.code, "%s: a role needs no kms:DescribeKey: %s", command, e.stderr)
		assert.Contains(t, e.stderr, "KMS key "+key+" could not be checked: its state could not be read", command)
	}
}
