package tests

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// No one deletes a locked backup; a lock that stopped halfway is finished by the same command.
func TestLock_KeepsABackup_UntilItIsUnlocked(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Faults: faults})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	run := func(args ...string) ending { return p.run(t, append(args, "--storage", whole)...) }
	for _, name := range []string{"first", "second"} {
		e := run("backup", prod.String(), "--name", name)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	for name, args := range map[string][]string{
		"no end":              {"lock", "first"},
		"an end before":       {"lock", "first", "--until", "2020-01-01"},
		"another mode":        {"lock", "first", "--until", "30d", "--mode", "legal"},
		"no cool-off":         {"lock", "first", "--until", "30d", "--cool-off", "1h"},
		"cool-off too long":   {"lock", "first", "--until", "30d", "--mode", "compliance", "--cool-off", "73h"},
		"permanently":         {"lock", "first", "--until", "30d", "--mode", "compliance"},
		"permanently, by yes": {"lock", "first", "--until", "30d", "--mode", "compliance", "--confirm", "yes"},
		"unlock, no --yes":    {"unlock", "first"},
	} {
		require.EqualValues(t, 2, run(args...).code, name)
	}
	require.EqualValues(t, 4, run("lock", "third", "--until", "30d").code)
	require.EqualValues(t, 4, run("unlock", "third", "--yes").code)
	require.Zero(t, faults.Calls("ec2.LockSnapshot"))

	dry := run("lock", "first", "--until", "30d", "--dry-run")
	require.Equal(t, cli.ExitDone, dry.code, dry.stderr)
	require.Contains(t, dry.stdout, " lock ")
	require.Zero(t, faults.Calls("ec2.LockSnapshot"))

	require.NoError(t, faults.Add(fault.Rule{Point: "ec2.LockSnapshot", Position: fault.Before, Code: "UnauthorizedOperation"}))
	half := run("lock", "first", "--until", "30d")
	require.EqualValues(t, 3, half.code, half.stderr)
	require.Regexp(t, `(?m) failed `, half.stdout)
	require.Contains(t, half.line("hint: "), "run the same command again")
	require.Regexp(t, `(?m)^locked +[1-9] of [0-9]+ snapshots, governance until `, run("describe", "first").stdout)
	done := run("lock", "first", "--until", "30d", "-o", "json")
	require.Equal(t, cli.ExitDone, done.code, done.stderr)
	var doc struct {
		Kind  string
		Items []struct{ Snapshot, Action, Mode string }
	}
	require.NoError(t, json.Unmarshal([]byte(done.stdout), &doc))
	require.Equal(t, "BackupLock", doc.Kind)
	for _, it := range doc.Items {
		require.Equal(t, "governance", it.Mode)
	}
	require.Regexp(t, `(?m)^locked +6 of 6 snapshots, governance until `, run("describe", "first").stdout)

	bucket, _, _ := strings.Cut(strings.TrimPrefix(whole, "s3://"), "/")
	p.bed.S3.LockBucket(bucket)
	require.Contains(t, run("lock", "first", "--until", "31d", "--dry-run").stdout, "Object Lock would keep 3 objects of the backup (GOVERNANCE) until ")
	require.Contains(t, run("lock", "first", "--until", "31d").stdout, "Object Lock keeps 3 objects of the backup (GOVERNANCE) until ")
	require.NotContains(t, run("describe", "first").stdout, "archive tier")
	require.NoError(t, p.bed.EC2.ArchiveSnapshot(cluster.SnapshotID(doc.Items[0].Snapshot)))
	require.Regexp(t, `(?m)^archive tier 1 of 6 snapshots: .* 72 hours$`, run("describe", "first").stdout)
	refusedInTheArchiveTier(t, p, run)
	require.NoError(t, p.bed.EC2.LendSnapshot(cluster.SnapshotID(doc.Items[0].Snapshot), 7))
	require.Regexp(t, `(?m)^archive tier snapshots are back in the standard tier only until 20`, run("describe", "first").stdout)
	require.Equal(t, cli.ExitDone, run("copy", "first", "--to-storage", "s3://"+testbed.Bucket+"/away", "--to-region", testbed.AwayRegion, "--dry-run").code)

	e := run("delete", "first", "--yes")
	require.EqualValues(t, 6, e.code, e.stderr)
	require.Contains(t, e.line("error: "), "6 of 6 snapshots are locked, until ")
	pruned := run("prune", "--keep-last", "1", "--yes")
	require.Equal(t, cli.ExitDone, pruned.code, pruned.stderr)
	require.Regexp(t, `in-use +first .*are locked, until `, pruned.stdout)

	e = run("unlock", "first", "--yes", "-o", "name")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Equal(t, "backup/first\n", e.stdout)
	e = run("lock", "first", "--until", "30d", "--mode", "compliance", "--confirm", "first")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.EqualValues(t, 6, run("unlock", "first", "--yes").code, "no one can")
	e = run("delete", "second", "--last", "--yes", "--delete-rate", "100")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
}

// refusedInTheArchiveTier requires that what EC2 does not do with a snapshot in the archive tier is refused before the first
// change, with what it takes. A lock is none of that.
func refusedInTheArchiveTier(t *testing.T, p *place, run func(...string) ending) {
	t.Helper()
	made, written := len(p.bed.EC2.MutatingCalls()), len(p.bed.Kube.MutatingCalls())
	for _, args := range [][]string{
		{"restore", "first", "--to", "tidb/copy"},
		{"drill", "first", "--tables", "1"},
		{"copy", "first", "--to-storage", "s3://" + testbed.Bucket + "/away", "--to-region", testbed.AwayRegion},
	} {
		for _, more := range [][]string{{"--dry-run"}, nil} {
			e := run(slices.Concat(args, more)...)
			require.EqualValues(t, 5, e.code, "%v: %s", args, e.stderr)
			require.Contains(t, e.line("error: "), "in the archive tier", "%v", args)
			require.Contains(t, e.line("hint: "), "takes up to 72 hours")
			require.Contains(t, e.line("hint: "), "aws ec2 restore-snapshot-tier --region us-west-2 ")
		}
	}
	require.Len(t, p.bed.EC2.MutatingCalls(), made)
	require.Len(t, p.bed.Kube.MutatingCalls(), written)
	require.Empty(t, p.bed.Away.MutatingCalls())
	require.Equal(t, cli.ExitDone, run("lock", "first", "--until", "32d").code)
}
