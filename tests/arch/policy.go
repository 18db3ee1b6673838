package arch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/generate"
)

// rule says on what, and under which condition, actions are allowed.
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
		{ // optional: without it an unusable key is found late
			sid: "DescribeKeys", resource: "*", holds: is("kms:DescribeKey"),
		},
		{sid: "Make", resource: "*", holds: is("ec2:CreateSnapshots", "ec2:CreateVolume")},
		{
			sid: "TagWhatIsMade", resource: "*", holds: is("ec2:CreateTags"),
			condition: map[string]map[string]any{
				"StringEquals": {"ec2:CreateAction": []string{"CreateSnapshots", "CreateVolume"}},
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
		{sid: "KeepBackups", resource: "arn:aws:s3:::BUCKET/PREFIX/*", holds: is("s3:DeleteObject", "s3:GetObject", "s3:PutObject")},
		{sid: "ListBackups", resource: "arn:aws:s3:::BUCKET", holds: is("s3:ListBucket")},
		{ // optional: without it `tisnap doctor` knows less
			sid: "CheckTheBucket", resource: "arn:aws:s3:::BUCKET",
			holds: is("s3:GetBucketVersioning", "s3:GetLifecycleConfiguration", "s3:GetBucketObjectLockConfiguration"),
		},
	}
}

// NotCalledYet lists the actions of adapter methods that no command calls yet: nobody is asked to allow them. The command
// that does takes its own out.
func NotCalledYet() map[string][]string {
	return map[string][]string{
		"ec2:CopySnapshot":              {"CopySnapshot", "ProbeCopy"},
		"ec2:ModifySnapshotAttribute":   {"ShareSnapshot", "UnshareSnapshot"},
		"ec2:DescribeSnapshotAttribute": {"SharedWith"},
		"ec2:LockSnapshot":              {"LockSnapshot"},
		"ec2:UnlockSnapshot":            {"UnlockSnapshot"},
	}
}

// needsNone lists the calls that AWS answers to everybody who has credentials.
func needsNone() []string { return []string{"sts:GetCallerIdentity"} }

// PolicyOf is the least policy that allows these actions. An action that it does not know is an error: somebody
// has to say on what it is allowed.
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
