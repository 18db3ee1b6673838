package tests

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/doctor"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

const healthyKey = "arn:aws:kms:us-west-2:123456789012:key/one"

// healthy starts a testbed in which every check passes: with a backup, something that a restore made, and a bucket as
// docs/eks.md makes it.
func healthy(t *testing.T, faults *fault.Plan) *place {
	t.Helper()
	p := backedUp(t, testbed.Config{Faults: faults}, healthyKey)
	_, err := p.bed.EC2.CreateVolumeDirect("us-west-2a", cluster.VolumeSpec{Type: "gp3", SizeGiB: 10}, ebs.Tags{ebs.TagRun: "restore"})
	require.NoError(t, err)
	p.setBucket(t, "versioning", "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
	p.setBucket(t, "lifecycle", lifecycle("<NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays></NoncurrentVersionExpiration>"))
	return p
}

func lifecycle(action string) string {
	return "<LifecycleConfiguration><Rule><ID>rule</ID><Filter><Prefix></Prefix></Filter><Status>Enabled</Status>" + action + "</Rule></LifecycleConfiguration>"
}

// setBucket sets a subresource of the bucket as S3's API takes it.
func (p *place) setBucket(t *testing.T, name, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, p.bed.AWS()+"/"+testbed.Bucket+"?"+name, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "signed")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// diagnosis is the JSON of `tisnap doctor`.
type diagnosis struct {
	Kind   string
	For    string
	Checks []doctor.Check
}

// diagnose runs the checks and returns those that are not ok, by name and subject.
func (p *place) diagnose(t *testing.T, code cli.ExitCode, more ...string) (all diagnosis, bad map[string]doctor.Check) {
	t.Helper()
	e := p.refused(t, append([]string{"doctor", prod.String(), "--storage", whole, "-o", "json"}, more...)...)
	require.Equal(t, code, e.code, "%s%s", e.stdout, e.stderr)
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &all), e.stdout)
	bad = map[string]doctor.Check{}
	for _, c := range all.Checks {
		require.NotEmpty(t, c.Found, "%v", c)
		if c.Status != doctor.OK {
			bad[c.Name+" "+c.Subject] = c
		}
	}
	return all, bad
}

func TestDoctor_Healthy_IsAllOK(t *testing.T) {
	t.Parallel()
	p := healthy(t, nil)
	all, bad := p.diagnose(t, cli.ExitDone)
	require.Empty(t, bad)
	require.Equal(t, "Doctor", all.Kind)
	require.Equal(t, "all", all.For)
	require.Greater(t, len(all.Checks), 20)

	seen := map[string]bool{}
	for _, purpose := range []string{"backup", "restore", "gc", "archive", "copy", "drill"} {
		some, bad := p.diagnose(t, cli.ExitDone, "--for", purpose)
		require.Empty(t, bad, purpose)
		require.Less(t, len(some.Checks), len(all.Checks))
		for _, c := range some.Checks {
			seen[c.Name+" "+c.Subject] = true
		}
	}
	require.True(t, seen["rbac drill"] && seen["iam ec2:CopySnapshot"], "%v", seen)
	require.Len(t, seen, len(all.Checks)+1, "each check is for something, and all but one are made by default")

	e := p.run(t, "doctor", prod.String(), "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	for line := range strings.Lines(e.stdout) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), 80, line)
	}
	require.NotContains(t, e.stdout, "fix:")
}

// Each row breaks one thing, and repairs it: exactly that is found, with its fix.
func TestDoctor_OneThingIsWrong_IsFoundWithItsFix(t *testing.T) { //nolint:tparallel // the rows share a testbed
	t.Parallel()
	faults := &fault.Plan{}
	p := healthy(t, faults)
	always := func(point, code string) func() {
		return func() {
			require.NoError(t, faults.Add(fault.Rule{Point: point, Position: fault.Before, Code: code, Times: -1}))
		}
	}
	const failed, fine = 5, cli.ExitDone
	for _, row := range []struct {
		name, check   string
		code          cli.ExitCode
		status        doctor.Status
		found, fix    string
		wrong, repair func()
	}{
		{"bucket is read-only", "storage writes", failed, doctor.Fail, "AccessDenied", "grant s3:PutObject on arn", always("s3.PutObject", "AccessDenied"), faults.Clear},
		{
			"bucket that ignores conditions", "storage writes", failed, doctor.Fail, "its server ignores If-None-Match", "use Amazon S3",
			func() { p.bed.S3.IgnoreConditions(true) }, func() { p.bed.S3.IgnoreConditions(false) },
		},
		{"no permission to delete objects", "storage writes", failed, doctor.Fail, "AccessDenied", "grant s3:DeleteObject on arn", always("s3.DeleteObject", "AccessDenied"), faults.Clear},
		{
			"EC2 permission", "iam ec2:CreateSnapshots", failed, doctor.Fail, "UnauthorizedOperation", "ec2:CreateSnapshots",
			func() { p.bed.EC2.Deny("CreateSnapshots") }, func() { p.bed.EC2.Allow("CreateSnapshots") },
		},
		{
			"EC2 permission on what tisnap made", "iam ec2:DeleteVolume", failed, doctor.Fail, "UnauthorizedOperation", "ec2:DeleteVolume",
			func() { p.bed.EC2.Deny("DeleteVolume") }, func() { p.bed.EC2.Allow("DeleteVolume") },
		},
		{
			"EC2 permission for an option", "iam ec2:EnableFastSnapshotRestores", fine, doctor.Warn, "only options of a restore need it", "ec2:EnableFastSnapshotRestores",
			func() { p.bed.EC2.Deny("EnableFastSnapshotRestores") }, func() { p.bed.EC2.Allow("EnableFastSnapshotRestores") },
		},
		{
			"EC2 permission to lock", "iam ec2:LockSnapshot", fine, doctor.Warn, "only `tisnap lock` needs it", "ec2:LockSnapshot",
			func() { p.bed.EC2.Deny("LockSnapshot") }, func() { p.bed.EC2.Allow("LockSnapshot") },
		},
		{
			"EC2 permission to copy", "iam ec2:CopySnapshot", fine, doctor.Warn, "only copies need it", "ec2:CopySnapshot",
			func() { p.bed.EC2.Deny("CopySnapshot") }, func() { p.bed.EC2.Allow("CopySnapshot") },
		},
		{
			"no permission to ask for the default key", "kms default key", fine, doctor.Warn, "counts all in full", "ec2:GetEbsDefaultKmsKeyId",
			func() { p.bed.EC2.Deny("GetEbsDefaultKmsKeyId") }, func() { p.bed.EC2.Allow("GetEbsDefaultKmsKeyId") },
		},
		{
			"no permission to ask for encryption by default", "kms default key", fine, doctor.Warn, "counts all in full", "ec2:GetEbsEncryptionByDefault",
			func() { p.bed.EC2.Deny("GetEbsEncryptionByDefault") }, func() { p.bed.EC2.Allow("GetEbsEncryptionByDefault") },
		},
		{
			"default key is disabled", "kms default key", fine, doctor.Warn, "is Disabled: copies of encrypted snapshots get it", "--kms-key",
			func() { p.bed.EC2.SetKey(ebs.OwnKeyAlias, ebs.Key{State: ebs.KeyDisabled}) },
			func() { p.bed.EC2.SetKey(ebs.OwnKeyAlias, ebs.Key{State: ebs.KeyEnabled}) },
		},
		{
			"EBS direct permission", "iam ebs:GetSnapshotBlock", fine, doctor.Warn, "only archives need it", "ebs:GetSnapshotBlock",
			always("ebs.GetSnapshotBlock", "AccessDeniedException"), faults.Clear,
		},
		{
			"RBAC", "rbac restore", failed, doctor.Fail, "may not create persistentvolumes", "manifests/rbac.yaml",
			func() { p.bed.Kube.Deny("create", "persistentvolumes") }, func() { p.bed.Kube.Allow("create", "persistentvolumes") },
		},
		{
			"KMS key about to be deleted", "kms " + healthyKey, failed, doctor.Fail, "PendingDeletion", "cancel-key-deletion",
			func() { p.bed.EC2.SetKey(healthyKey, ebs.Key{State: ebs.KeyPendingDeletion}) },
			func() { p.bed.EC2.SetKey(healthyKey, ebs.Key{State: ebs.KeyEnabled}) },
		},
		{
			"KMS may not be asked", "kms " + healthyKey, fine, doctor.Unknown, "its state could not be read", "aws kms describe-key",
			func() { p.bed.EC2.Deny("DescribeKey") }, func() { p.bed.EC2.Allow("DescribeKey") },
		},
		{"bucket may not be looked at", "bucket versioning", fine, doctor.Unknown, "could not be checked", "grant s3:GetBucketVersioning on arn", always("s3.GetBucketVersioning", "AccessDenied"), faults.Clear},
		{
			"lifecycle rule deletes", "bucket lifecycle", failed, doctor.Fail, "rule rule deletes objects", "exclude the storage's prefix",
			func() { p.setBucket(t, "lifecycle", lifecycle("<Expiration><Days>30</Days></Expiration>")) },
			func() {
				p.setBucket(t, "lifecycle", lifecycle("<NoncurrentVersionExpiration><NoncurrentDays>30</NoncurrentDays></NoncurrentVersionExpiration>"))
			},
		},
		{
			"S3's clock is two minutes ahead", "clock s3", fine, doctor.Warn, "ahead of this machine's", "synchronize the clocks",
			func() { p.bed.S3.Skew(2 * time.Minute) }, func() { p.bed.S3.Skew(0) },
		},
		{
			"S3's clock is ten minutes behind", "clock s3", failed, doctor.Fail, " behind this machine's", "synchronize the clocks",
			func() { p.bed.S3.Skew(-10 * time.Minute) }, func() { p.bed.S3.Skew(0) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.wrong()
			defer row.repair()
			_, bad := p.diagnose(t, row.code)
			c := bad[row.check]
			assert.Equal(t, row.status, c.Status, "%v", bad)
			assert.Contains(t, c.Found, row.found)
			assert.Contains(t, c.Fix, row.fix)
			if row.name == "KMS may not be asked" {
				assert.Equal(t, doctor.Warn, bad["kms default key"].Status)
				delete(bad, "kms default key")
			}
			assert.Len(t, bad, 1)
		})
	}
	_, bad := p.diagnose(t, cli.ExitDone)
	require.Empty(t, bad, "all is repaired")
}

// Who asks about copies or drills alone fails without their permissions; those of drills are asked for by --for alone.
func TestDoctor_PermissionOfACopyOrDrillIsMissing_IsFound(t *testing.T) { //nolint:tparallel // the rows share a testbed
	t.Parallel()
	p := healthy(t, nil)
	for _, row := range []struct {
		purpose, check, found, fix string
		wrong, repair              func()
	}{
		{
			"drill", "rbac drill", "may not create networkpolicies.networking.k8s.io", "rbac-drill.yaml",
			func() { p.bed.Kube.Deny("create", "networkpolicies") }, func() { p.bed.Kube.Allow("create", "networkpolicies") },
		},
		{
			"copy", "iam ec2:CopySnapshot", "UnauthorizedOperation", "ec2:CopySnapshot",
			func() { p.bed.EC2.Deny("CopySnapshot") }, func() { p.bed.EC2.Allow("CopySnapshot") },
		},
	} {
		t.Run(row.purpose, func(t *testing.T) {
			row.wrong()
			defer row.repair()
			_, bad := p.diagnose(t, 5, "--for", row.purpose)
			require.Len(t, bad, 1)
			require.Equal(t, doctor.Fail, bad[row.check].Status, "%v", bad)
			require.Contains(t, bad[row.check].Found, row.found)
			require.Contains(t, bad[row.check].Fix, row.fix)
		})
	}
	p.bed.EC2.DeleteKey(ebs.OwnKeyAlias) // as in an account that has not encrypted a volume yet
	all, bad := p.diagnose(t, cli.ExitDone, "--for", "copy")
	require.Empty(t, bad)
	require.True(t, slices.ContainsFunc(all.Checks, func(c doctor.Check) bool {
		return c.Subject == "default key" && strings.Contains(c.Found, "AWS makes it when it is first used")
	}), "%v", all)
}

// What only the pods of Jobs need is checked with a repository, and each right has its use.
func TestDoctor_RightForJobsIsMissing_Warns(t *testing.T) {
	t.Parallel()
	p := healthy(t, nil)
	repo := []string{"--for", "archive", "--repo", "s3://" + testbed.Bucket + "/archive", "-n", "tidb"}
	_, bad := p.diagnose(t, cli.ExitDone, repo...)
	require.Empty(t, bad)
	p.bed.Kube.Deny("create", "jobs")
	p.bed.Kube.Deny("list", "persistentvolumes")
	_, bad = p.diagnose(t, cli.ExitDone, repo...)
	require.Len(t, bad, 2)
	for check, want := range map[string][]string{
		"rbac archive create --on-kubernetes": {"create jobs.batch (to make pods)", "archive-workers"},
		"rbac archive restore --to-claims":    {"list persistentvolumes (to find those of the run", "archive-claims"},
	} {
		require.Equal(t, doctor.Warn, bad[check].Status, "%v", bad)
		require.Contains(t, bad[check].Found, want[0])
		require.Contains(t, bad[check].Found, "only tisnap archive")
		require.Contains(t, bad[check].Fix, "in namespace tidb, as in manifests/kustomize/overlays/"+want[1])
	}
	_, bad = p.diagnose(t, cli.ExitDone, "--for", "archive")
	require.Empty(t, bad)
}

// What cannot be reached fails, what depends on it is unknown, and the rest is checked all the same.
func TestDoctor_OneSideIsAway_TheOthersAreChecked(t *testing.T) {
	t.Parallel()
	p := healthy(t, nil)
	all, bad := p.diagnose(t, 5, "--context", "none")
	require.Equal(t, doctor.Fail, bad["kubernetes "+prod.String()].Status)
	require.Equal(t, doctor.Unknown, bad["quota pending snapshots"].Status)
	ok := func(name string) bool {
		return slices.ContainsFunc(all.Checks, func(c doctor.Check) bool { return c.Name+" "+c.Subject == name && c.Status == doctor.OK })
	}
	require.True(t, ok("ec2 account") && ok("iam ec2:DeleteSnapshot") && ok("storage writes") && ok("clock s3"), "%v", all)

	e := p.run(t, "doctor", prod.String(), "--storage", "")
	require.EqualValues(t, 5, e.code)
	require.Contains(t, e.line("error: "), "checks failed: storage writes")
	require.Contains(t, e.stdout, "fail: storage writes: --storage is missing")
	require.Contains(t, e.stdout, "  fix: set --storage s3://bucket/prefix")
}

// PD's clock is compared, too.
func TestDoctor_PDClockIsAhead(t *testing.T) {
	t.Parallel()
	p := healthy(t, nil)
	c, err := p.bed.AwaitCluster(t.Context(), prod)
	require.NoError(t, err)
	client, err := pd.Open(t.Context(), pd.Config{Addresses: c.PD.URLs()})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	now, err := client.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, client.RaiseTS(t.Context(), cluster.MakeTS(now.Time().Add(10*time.Minute), 0)))
	_, bad := p.diagnose(t, 5)
	require.Equal(t, doctor.Fail, bad["clock pd"].Status)
	require.Contains(t, bad["clock pd"].Found, "ahead of this machine's")
}
