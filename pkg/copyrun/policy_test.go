package copyrun_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/retention"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

const copySource, copyTarget = "iam-policy-copy-source.json", "iam-policy-copy-target.json"

// statementsOf are those of a policy of the manifests.
func statementsOf(t *testing.T, file string) []ebstest.Statement {
	t.Helper()
	text, err := os.ReadFile("../../manifests/" + file)
	require.NoError(t, err)
	var policy struct{ Statement []ebstest.Statement }
	require.NoError(t, json.Unmarshal(text, &policy))
	return policy.Statement
}

// calledOf are the actions that these statements allow.
func calledOf(statements []ebstest.Statement) []string {
	var out []string
	for _, s := range statements {
		out = append(out, s.Action...)
	}
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(a string) bool {
		return strings.HasPrefix(a, "sts:") // of what signs the calls
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

// copyUnder plans a copy with the default key, and copies a backup, between accounts that allow these statements alone: into
// another key, in a time that is paid for, with one copy that fails late and is made again. There is an earlier copy, whose
// keys are compared. It returns the calls that were refused, in both accounts and storages, except for dry runs.
func copyUnder(t *testing.T, source, target []ebstest.Statement) (refused []string, optional int, err error) {
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
	l.from.server.AllowStatements(source...)
	l.to.server.AllowStatements(target...)
	var mu sync.Mutex
	note := func(call string) {
		mu.Lock()
		defer mu.Unlock()
		refused = append(refused, call)
	}
	l.from.refuseS3(t, calledOf(source), note)
	l.to.refuseS3(t, calledOf(target), note)
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
	refused, optional, err := copyUnder(t, statementsOf(t, copySource), statementsOf(t, copyTarget))
	require.NoError(t, err)
	require.Empty(t, refused)
	require.Positive(t, optional, "all are asked")
}

// Neither allows more: without any of their actions a call is refused, or what it would find out is unknown.
func TestPolicies_OneActionLess_IsMissed(t *testing.T) {
	t.Parallel()
	source, target := statementsOf(t, copySource), statementsOf(t, copyTarget)
	for of, statements := range map[string][]ebstest.Statement{"source": source, "target": target} {
		for _, action := range calledOf(statements) {
			t.Run(of+" "+action, func(t *testing.T) {
				t.Parallel()
				less := func(name string, statements []ebstest.Statement) []ebstest.Statement {
					out := slices.Clone(statements)
					for i := range out {
						out[i].Action = slices.DeleteFunc(slices.Clone(out[i].Action), func(a string) bool { return name == of && a == action })
					}
					return out
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

// The conditions let pass what a copy does to its own, and nothing else: with another tag, or another action that makes what
// is tagged, a copy is refused; and with them so is the deletion, the sharing or the tagging of what tisnap did not make.
func TestPolicies_Conditions_HoldForTisnapsOwnAlone(t *testing.T) {
	t.Parallel()
	source, target := statementsOf(t, copySource), statementsOf(t, copyTarget)
	other := func(of []ebstest.Statement, sid int) []ebstest.Statement {
		out := slices.Clone(of)
		text, err := json.Marshal(out[sid].Condition)
		require.NoError(t, err)
		text = []byte(strings.NewReplacer("tisnap.io/", "other.io/", "CopySnapshot", "CreateVolume").Replace(string(text)))
		out[sid].Condition = nil
		require.NoError(t, json.Unmarshal(text, &out[sid].Condition))
		return out
	}
	for n, s := range slices.Concat(source, target) {
		if s.Condition == nil || s.Condition["Null"]["aws:ResourceTag/tisnap.io/cluster"] != nil { // for what has lost a tag
			continue
		}
		t.Run(strings.Join(s.Action, ","), func(t *testing.T) {
			t.Parallel()
			from, to := source, target
			if n < len(source) {
				from = other(source, n)
			} else {
				to = other(target, n-len(source))
			}
			refused, _, err := copyUnder(t, from, to)
			require.True(t, len(refused) > 0 || failure.Is(err, failure.Denied), "nothing needs it: %v", err)
		})
	}

	l := newLab(t, 1)
	ids := map[*place]cluster.SnapshotID{}
	for _, p := range []*place{l.from, l.to} {
		p.server.AddForeignSnapshots(1, 0)
		ids[p] = p.server.Snapshots()[0].ID
	}
	l.from.server.AllowStatements(source...)
	l.to.server.AllowStatements(target...)
	denied := func(err error) { require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err) }
	denied(l.from.client.ShareSnapshot(t.Context(), ids[l.from], []string{away}))
	denied(l.from.client.DeleteSnapshot(t.Context(), ids[l.from]))
	denied(l.to.client.DeleteSnapshot(t.Context(), ids[l.to]))
	denied(l.to.client.PutTags(t.Context(), []string{string(ids[l.to])}, ebs.Tags{ebs.TagRun: "run"}))
	denied(l.to.client.ShareSnapshot(t.Context(), ids[l.to], []string{home}))
	_, err := l.to.client.LockSnapshot(t.Context(), ebs.LockRequest{Snapshot: ids[l.to], Mode: ebs.LockGovernance, Until: time.Now().AddDate(0, 0, 30)})
	denied(err)
}

// The role of the target makes copies: to lock them, to delete or prune them and to collect what was abandoned needs another
// one.
func TestPolicies_OfTheTarget_NoLockDeletePruneAndGC(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.run(t, l.backup(t), "run-1")
	second := l.backup(t)
	l.run(t, second, "run-2")
	l.to.server.AllowStatements(statementsOf(t, copyTarget)...)
	deps := gc.Deps{EBS: l.to.client, Store: l.to.at()}
	_, deleted := gc.Delete(t.Context(), deps, gc.DeleteOptions{Backup: second, Rate: 1000})
	_, pruned := gc.Prune(t.Context(), deps, gc.PruneOptions{Policy: retention.Policy{Last: 1}, AllowFull: true, Rate: 1000})
	_, collected := gc.Collect(t.Context(), deps, gc.Options{Rate: 1000})
	_, locked := l.to.client.LockSnapshot(t.Context(), ebs.LockRequest{
		Snapshot: l.to.server.Copies()[0].Snapshot, Mode: ebs.LockGovernance, Until: time.Now().AddDate(0, 0, 30),
	})
	for command, err := range map[string]error{"delete": deleted, "prune": pruned, "gc": collected, "lock": locked} {
		require.Equal(t, failure.Denied, failure.KindOf(err), "%s: %v", command, err)
	}
	require.Equal(t, 2, l.copies())
	l.requireWhole(t, second)
}
