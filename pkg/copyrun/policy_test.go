package copyrun_test

import (
	"encoding/json"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// calledOf are the actions that a policy of the manifests allows.
func calledOf(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile("../../manifests/" + file)
	require.NoError(t, err)
	var policy struct{ Statement []struct{ Action []string } }
	require.NoError(t, json.Unmarshal(text, &policy))
	var out []string
	for _, s := range policy.Statement {
		out = append(out, s.Action...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(a string) bool {
		return a == "sts:AssumeRole" // of what signs the calls
	})
}

// refuseS3 makes the store refuse every call that needs another permission than the allowed ones, and lists them.
func (p *place) refuseS3(t *testing.T, allowed []string, refused func(call string)) {
	t.Helper()
	for permission, call := range map[string]string{
		"s3:GetObject": "s3.GetObject", "s3:PutObject": "s3.PutObject", "s3:DeleteObject": "s3.DeleteObject",
		"s3:ListBucket": "s3.ListObjectsV2",
	} {
		if !slices.Contains(allowed, permission) {
			require.NoError(t, p.s3.Add(fault.Rule{
				Point: call, Position: fault.Before, Code: "AccessDenied", Times: -1, Do: func() { refused(call) },
			}))
		}
	}
}

// copyUnder plans a copy with the default key, and copies a backup, between accounts that allow these actions alone: into
// another key, in a time that is paid for, with one copy that fails late and is made again. There is an earlier copy, whose
// keys are compared. It returns the calls that were refused, in both accounts and storages, except for dry runs.
func copyUnder(t *testing.T, source, target []string) (refused []string, optional int, err error) {
	t.Helper()
	l := newLab(t, 2)
	l.encrypt(t)
	l.run(t, l.backup(t), "run-0")
	l.to.server.SetDefaultKey("", true)
	backup := l.backup(t)
	mutated := len(l.from.store.MutatingCalls())
	require.NoError(t, l.to.faults.Add(fault.Rule{
		Point: "ec2.CopySnapshot.late", Position: fault.Before, Code: "Given key ID is not accessible",
	}))
	l.from.server.AllowOnly(source...)
	l.to.server.AllowOnly(target...)
	var mu sync.Mutex
	note := func(call string) {
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, call)
	}
	l.from.refuseS3(t, source, note)
	l.to.refuseS3(t, target, note)
	if _, err := catalogOf(l.from).List(t.Context()); err != nil { // for the word latest
		return refused, 1, err
	}
	o := l.options(backup, "run-1")
	if _, err = copyrun.Estimate(t.Context(), l.deps(), o); err == nil {
		o.KMSKey, o.Within = "alias/copies", 15*time.Minute
		var result *copyrun.Result
		result, err = copyrun.Run(t.Context(), l.deps(), o)
		require.True(t, err != nil || result.Sealed)
	}
	for _, call := range l.from.store.MutatingCalls()[mutated:] {
		require.Contains(t, call, " locks/", "the policy of the source allows no other")
	}
	for _, r := range slices.Concat(l.from.server.Refusals(), l.to.server.Refusals()) {
		if r.Code == "UnauthorizedOperation" {
			refused = append(refused, r.Action)
		}
	}
	return refused, min(l.to.faults.Calls("servicequotas.ListServiceQuotas"), l.to.faults.Calls("kms.DescribeKey"),
		l.from.faults.Calls("kms.DescribeKey")), err
}

// The two policies of a copy allow what it calls in either account.
func TestPolicies_OfSourceAndTarget_AreEnough(t *testing.T) {
	t.Parallel()
	refused, optional, err := copyUnder(t, calledOf(t, "iam-policy-copy-source.json"), calledOf(t, "iam-policy-copy-target.json"))
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Positive(t, optional, "all are asked")
}

// Neither allows more: without any of their actions a call is refused, or what it would find out is unknown.
func TestPolicies_OneActionLess_IsMissed(t *testing.T) {
	t.Parallel()
	source, target := calledOf(t, "iam-policy-copy-source.json"), calledOf(t, "iam-policy-copy-target.json")
	for _, of := range []string{"source", "target"} {
		for _, action := range map[string][]string{"source": source, "target": target}[of] {
			t.Run(of+" "+action, func(t *testing.T) {
				t.Parallel()
				less := func(name string, actions []string) []string {
					if name != of {
						return actions
					}
					return slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == action })
				}
				refused, _, err := copyUnder(t, less("source", source), less("target", target))
				if action == "servicequotas:ListServiceQuotas" || action == "kms:DescribeKey" {
					require.NoError(t, err, "it is optional: the plan is then made without")
					return
				}
				require.True(t, len(refused) > 0 || failure.Is(err, failure.Denied), "nothing needs it: %v", err)
			})
		}
	}
}
