package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/generate"
)

// rule defines on which resources, and under which condition, actions are allowed.
type rule struct {
	sid       string
	resource  string
	condition map[string]map[string]any
	holds     func(action string) bool
	also      bool // another rule may take the action, too
}

// rules are tried in order; the first that holds takes the action. An action that none takes has no place in
// the policy yet.
func rules() []rule {
	is := func(actions ...string) func(string) bool {
		return func(a string) bool { return slices.Contains(actions, a) }
	}
	return []rule{
		{sid: "Look", resource: "*", holds: func(a string) bool {
			return strings.HasPrefix(a, "ec2:Describe") || a == "servicequotas:ListServiceQuotas"
		}},
		{ // optional: without it an unusable key is found late, and a copy that is incremental may count as full
			sid: "DescribeKeys", resource: "*",
			holds: is("ec2:GetEbsDefaultKmsKeyId", "ec2:GetEbsEncryptionByDefault", "kms:DescribeKey"),
		},
		{sid: "Make", resource: "*", holds: is("ec2:CopySnapshot", "ec2:CreateSnapshots", "ec2:CreateVolume")},
		{
			sid: "TagWhatIsMade", resource: "*", holds: is("ec2:CreateTags"),
			condition: map[string]map[string]any{
				"StringEquals": {"ec2:CreateAction": []string{"CopySnapshot", "CreateSnapshots", "CreateVolume", "StartSnapshot"}},
			},
			also: true,
		},
		{ // what has lost one tag has the others
			sid: "TagAgainWhatTisnapMade", resource: "*", holds: is("ec2:CreateTags"),
			condition: map[string]map[string]any{"Null": {"aws:ResourceTag/tisnap.io/cluster": "false"}},
			also:      true,
		},
		{ // PD's volumes of a restored cluster
			sid: "TagWhatTheCSIDriverMade", resource: "arn:aws:ec2:*:*:volume/*", holds: is("ec2:CreateTags"),
			condition: map[string]map[string]any{
				"StringEquals":            {"aws:ResourceTag/ebs.csi.aws.com/cluster": "true"},
				"ForAllValues:StringLike": {"aws:TagKeys": []string{"tisnap.io/*"}},
			},
		},
		{
			sid: "ChangeOnlyWhatTisnapMade", resource: "*",
			holds: is("ec2:DeleteSnapshot", "ec2:DeleteVolume", "ec2:ModifyVolume",
				"ec2:EnableFastSnapshotRestores", "ec2:DisableFastSnapshotRestores"),
			condition: map[string]map[string]any{"Null": {"aws:ResourceTag/tisnap.io/run": "false"}},
		},
		{ // optional: only a copy into another account shares snapshots
			sid: "ShareWhatTisnapMade", resource: "arn:aws:ec2:*::snapshot/*", holds: is("ec2:ModifySnapshotAttribute"),
			condition: map[string]map[string]any{"Null": {"aws:ResourceTag/tisnap.io/run": "false"}},
		},
		{ // optional: only `tisnap lock` locks
			sid: "LockWhatTisnapMade", resource: "arn:aws:ec2:*::snapshot/*", holds: is("ec2:LockSnapshot"),
			condition: map[string]map[string]any{"Null": {"aws:ResourceTag/tisnap.io/run": "false"}},
		},
		{ // for archives, which read the snapshots of backups
			sid: "ReadBlocksForArchives", resource: "arn:aws:ec2:*::snapshot/*",
			holds:     is("ebs:GetSnapshotBlock", "ebs:ListChangedBlocks", "ebs:ListSnapshotBlocks"),
			condition: map[string]map[string]any{"Null": {"aws:ResourceTag/tisnap.io/run": "false"}},
		},
		{ // for restores from archives
			sid: "StartSnapshotsFromArchives", resource: "arn:aws:ec2:*::snapshot/*", holds: is("ebs:StartSnapshot"),
			condition: map[string]map[string]any{"Null": {"aws:RequestTag/tisnap.io/archive": "false"}},
		},
		{
			sid: "WriteSnapshotsFromArchives", resource: "arn:aws:ec2:*::snapshot/*",
			holds:     is("ebs:CompleteSnapshot", "ebs:PutSnapshotBlock"),
			condition: map[string]map[string]any{"Null": {"aws:ResourceTag/tisnap.io/archive": "false"}},
		},
		{sid: "KeepBackups", resource: "arn:aws:s3:::BUCKET/PREFIX/*", holds: is("s3:DeleteObject", "s3:GetObject", "s3:PutObject")},
		{ // optional: only `tisnap lock` uses it, in a bucket with Object Lock
			sid: "RetainWhatIsLocked", resource: "arn:aws:s3:::BUCKET/PREFIX/*", holds: is("s3:GetObjectRetention", "s3:PutObjectRetention"),
		},
		{sid: "ListBackups", resource: "arn:aws:s3:::BUCKET", holds: is("s3:ListBucket")},
		{ // optional: without it `tisnap doctor` knows less
			sid: "CheckTheBucket", resource: "arn:aws:s3:::BUCKET",
			holds: is("s3:GetBucketVersioning", "s3:GetLifecycleConfiguration", "s3:GetBucketObjectLockConfiguration"),
		},
	}
}

// NotGranted lists the actions that the policy leaves out, each with the reason: a command that needs one is run by a role
// of its own.
func NotGranted() map[string]string {
	const byKey = "only a key that unlocks archives needs it: iam-policy-archive-key.json grants it for that key"
	return map[string]string{
		"ec2:UnlockSnapshot": "a role that could unlock its own backups would not be kept from deleting them",
		"kms:Decrypt":        byKey, "kms:Encrypt": byKey,
		"s3:ListBucketVersions": "only a repository of archives needs it, whose bucket is granted by a policy of its own",
	}
}

// needsNone lists the calls that AWS answers to everyone with credentials.
func needsNone() []string { return []string{"sts:GetCallerIdentity"} }

// PolicyOf is the least policy that allows these actions. An action that it does not know is an error: the
// table has to define on what it is allowed.
func PolicyOf(actions []string) (generate.Policy, error) {
	p := generate.Policy{Version: "2012-10-17"}
	taken := map[string]bool{}
	for _, r := range rules() {
		s := generate.Statement{Sid: r.sid, Effect: "Allow", Resource: r.resource, Condition: r.condition}
		for _, a := range slices.Sorted(slices.Values(actions)) {
			if r.holds(a) && !taken[a] {
				taken[a] = !r.also
				s.Action = append(s.Action, a)
			}
		}
		if len(s.Action) > 0 {
			p.Statement = append(p.Statement, s)
		}
	}
	for _, a := range actions {
		if !taken[a] && !slices.Contains(needsNone(), a) {
			return generate.Policy{}, fmt.Errorf("the policy has no statement for %s", a)
		}
	}
	return p, nil
}
