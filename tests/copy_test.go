package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// copied is the output of a copy.
type copied struct {
	Sealed bool
	Region string
	Items  []struct{ Snapshot, CopiedFrom cluster.SnapshotID }
	Report report.Report
}

// TestCopy_SourceIsGone_CopyIsABackup copies a backup into another region, and into another storage of its own region. When the
// source's storage and snapshots are gone, both copies are backups like any other: the one where the cluster's nodes are is
// restored, with all rows.
func TestCopy_SourceIsGone_CopyIsABackup(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 9, Scale: 20})
	c, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 100, Clients: 2, Regions: 6, Seed: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, load.Close()) }()
	require.NoError(t, load.Load(t.Context()))
	rows := resolvedRows(t, c, load)
	e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--consistent-now", "--storage", whole)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	const away, beside = "s3://" + testbed.Bucket + "/away", "s3://" + testbed.Bucket + "/beside"
	do := func(into any, args ...string) {
		t.Helper()
		e := p.run(t, append(args, "-o", "json")...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.NoError(t, json.Unmarshal([]byte(e.stdout), into))
	}
	push := []string{"copy", string(firstBackup), "--storage", whole, "--to-storage", away, "--to-region", testbed.AwayRegion}
	var plan struct {
		ToRegion  string
		FullBytes int64
		Items     []struct{ Full string }
	}
	do(&plan, append(push, "--dry-run")...)
	require.Empty(t, p.bed.Away.Snapshots(), "a dry run changes nothing")
	require.Equal(t, testbed.AwayRegion, plan.ToRegion)
	require.Positive(t, plan.FullBytes)
	require.NotEmpty(t, plan.Items[0].Full)

	var pushed, pulled copied
	e = p.run(t, append(push, "-o", "json")...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &pushed))
	require.Regexp(t, `at least, at most \S+ USD for the transfer, and \S+ USD a month`, e.stderr)
	require.True(t, pushed.Sealed)
	require.Len(t, pushed.Items, len(plan.Items))
	require.Equal(t, plan.FullBytes, pushed.Report.Copied.FullBytes)
	requireSame(t, p.bed.EC2, p.bed.Away, pushed)
	do(&pulled, "copy", "latest", "--of", prod.String(), "--from-storage", whole, "--storage", beside)
	requireSame(t, p.bed.EC2, p.bed.EC2, pulled)
	e = p.run(t, push...)
	require.EqualValues(t, 6, e.code, e.stderr)

	do(&struct{}{}, "delete", string(firstBackup), "--storage", whole, "--yes", "--last", "--delete-rate", "100")
	var listed struct{ Items []struct{ State string } }
	do(&listed, "list", "--storage", away)
	require.Equal(t, "sealed", listed.Items[0].State)
	do(&struct{}{}, "describe", string(firstBackup), "--storage", away)
	require.Equal(t, cli.ExitDone, p.runAway(t, "list", "--check", "--storage", away))
	require.Equal(t, cli.ExitDone, p.runAway(t, "gc", "--storage", away, "--older-than", "0s", "--yes"))
	require.Len(t, p.bed.Away.Snapshots(), len(pushed.Items))
	require.Equal(t, cli.ExitDone, p.runAway(t, "delete", string(firstBackup), "--storage", away, "--yes", "--last", "--delete-rate", "100"))
	require.Empty(t, p.bed.Away.Snapshots())

	archiveCopy(t, p, beside, len(pulled.Items))
	e = p.run(t, "restore", string(firstBackup), "--to", "tidb/copy", "--storage", beside)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	p.requireRows(t, "copy", rows)
}

// Of copies that were made in another order than the backups, prune keeps what the next copy is incremental to, unless it may
// be full.
func TestCopy_PruneMayMakeTheNextFull(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Scale: 20})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	const away = "s3://" + testbed.Bucket + "/away"
	for _, args := range [][]string{
		{"backup", prod.String(), "--name", "first"}, {"backup", prod.String(), "--name", "second"},
		{"copy", "second", "--to-storage", away, "--to-region", testbed.AwayRegion},
		{"copy", "first", "--to-storage", away, "--to-region", testbed.AwayRegion},
	} {
		e := p.run(t, append(args, "--storage", whole)...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	all := len(p.bed.Away.Snapshots())
	prune := []string{"prune", "--storage", away, "--keep-last", "1", "--yes", "--delete-rate", "100"}
	require.Equal(t, cli.ExitDone, p.runAway(t, prune...))
	require.Len(t, p.bed.Away.Snapshots(), all)
	require.Equal(t, cli.ExitDone, p.runAway(t, append(prune, "--allow-full")...))
	require.Len(t, p.bed.Away.Snapshots(), all/2)
}

// archiveCopy archives a copy, whose snapshots are not of the volumes that EC2 reports.
func archiveCopy(t *testing.T, p *place, storage string, volumes int) {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(identity.String()), 0o600))
	repo := []string{"--repo", "s3://" + testbed.Bucket + "/archive", "--storage", storage, "-o", "json"}
	e := p.run(t, append(repo, "archive", "init", "--recipient", identity.Recipient().String())...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	e = p.run(t, append(repo, "archive", "create", string(firstBackup), "--repo-identity", key)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	var made struct {
		Committed bool
		Report    report.Report
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &made))
	require.True(t, made.Committed)
	require.Len(t, made.Report.Archived.Volumes, volumes)
}

// runAway runs the program in the other region.
func (p *place) runAway(t *testing.T, args ...string) cli.ExitCode {
	t.Helper()
	args = append(args, "--endpoint-url", p.bed.AWS(), "--region", testbed.AwayRegion, "--progress", "plain")
	var out bytes.Buffer
	code := cli.Run(t.Context(), args, cli.Streams{Out: &out, Err: &out}, cli.Version{Version: "test"})
	t.Log(out.String())
	return code
}

// requireSame requires that the copies have the data of their sources.
func requireSame(t *testing.T, from, to *ebstest.Server, c copied) {
	t.Helper()
	require.NotEmpty(t, c.Items)
	for _, i := range c.Items {
		want, err := from.Image(i.CopiedFrom)
		require.NoError(t, err)
		got, err := to.Image(i.Snapshot)
		require.NoError(t, err)
		require.Empty(t, got.Changed(want, 1<<20))
	}
}

// A push into another account acts there by a role that the account trusts the caller with, and in the source by one of
// the source's account. What was shared for it is not shared any more afterwards, and the copy is used by the same role.
func TestCopy_IntoAnotherAccount_ByRoles(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Scale: 20})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	source, target := p.bed.EC2.AddRole("backups", ""), p.bed.Vault.AddRole("vault", "ours")
	const vault = "s3://" + testbed.Bucket + "/vault"
	run := func(code cli.ExitCode, args ...string) ending {
		t.Helper()
		e := p.run(t, args...)
		require.Equal(t, code, e.code, "%v: %s", args, e.stderr)
		return e
	}
	run(cli.ExitDone, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole, "--ebs-role-arn", source)
	push := []string{
		"copy", string(firstBackup), "--storage", whole, "--to-storage", vault, "--to-region", testbed.AwayRegion,
		"--role-arn", target, "--ebs-role-arn", source,
	}
	refused := run(7, append(push, "--external-id", "theirs")...)
	require.Contains(t, refused.line("error: "), "assume role of "+target)
	require.Contains(t, refused.line("error: "), "not authorized to perform: sts:AssumeRole")
	run(2, "copy", string(firstBackup), "--storage", whole, "--to-storage", vault, "--ebs-external-id", "ours")
	require.Empty(t, p.bed.Vault.Snapshots())
	var pushed copied
	require.NoError(t, json.Unmarshal([]byte(run(cli.ExitDone, append(push, "--external-id", "ours", "-o", "json")...).stdout), &pushed))
	require.True(t, pushed.Sealed)
	requireSame(t, p.bed.EC2, p.bed.Vault, pushed)
	require.Empty(t, p.bed.Away.Snapshots())
	var described struct {
		EC2 struct{ Missing []cluster.SnapshotID }
	}
	there := []string{"--storage", vault, "--ebs-role-arn", target, "--ebs-external-id", "ours"}
	require.NoError(t, json.Unmarshal([]byte(run(cli.ExitDone, append(there, "describe", string(firstBackup), "-o", "json")...).stdout), &described))
	require.Empty(t, described.EC2.Missing)
	require.NoError(t, json.Unmarshal([]byte(run(cli.ExitDone, "describe", string(firstBackup), "-o", "json", "--storage", vault).stdout), &described))
	require.Len(t, described.EC2.Missing, len(pushed.Items), "the account of the credentials does not have them")
	require.Equal(t, cli.ExitDone, p.runAway(t, append(there, "delete", string(firstBackup), "--yes", "--last", "--delete-rate", "100")...))
	require.Empty(t, p.bed.Vault.Snapshots())
}

// TestCopy_OfACopy_OutlivesBoth copies a backup into another account and region, and that copy back into the first, where both
// before it are then deleted: what is left names both, and is restored with all rows.
func TestCopy_OfACopy_OutlivesBoth(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 9, Scale: 20})
	c, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 100, Clients: 2, Regions: 6, Seed: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, load.Close()) }()
	require.NoError(t, load.Load(t.Context()))
	rows := resolvedRows(t, c, load)
	home, there := p.bed.EC2.AddRole("backups", ""), p.bed.Vault.AddRole("vault", "")
	const vault, back = "s3://" + testbed.Bucket + "/vault", "s3://" + testbed.Bucket + "/back"
	run := func(code cli.ExitCode, args ...string) ending {
		t.Helper()
		e := p.run(t, args...)
		require.Equal(t, code, e.code, "%v: %s", args, e.stderr)
		return e
	}
	inVault := []string{"--storage", vault, "--ebs-role-arn", there}
	remove := slices.Concat(inVault, []string{"delete", string(firstBackup), "--yes", "--last", "--delete-rate", "100"})
	name := string(firstBackup)
	run(cli.ExitDone, "backup", prod.String(), "--name", name, "--consistent-now", "--storage", whole)
	run(cli.ExitDone, "copy", name, "--storage", whole, "--to-storage", vault, "--to-region", testbed.AwayRegion, "--role-arn", there)
	run(cli.ExitDone, append(inVault, "copy", name, "--to-storage", back, "--to-region", p.bed.EC2.Region(), "--role-arn", home)...)

	var described struct {
		CopyOf struct {
			Location, Region, Account string
			CopyOf                    struct {
				Location, Region, Account string
				CopyOf                    *struct{}
			}
		}
		Snapshots []struct{ ID, CopiedFrom cluster.SnapshotID }
	}
	require.NoError(t, json.Unmarshal([]byte(run(cli.ExitDone, "describe", name, "--storage", back, "-o", "json").stdout), &described))
	of := described.CopyOf
	require.Equal(t, []string{testbed.AwayRegion, testbed.VaultAccount, p.bed.EC2.Region(), p.bed.EC2.Account()},
		[]string{of.Region, of.Account, of.CopyOf.Region, of.CopyOf.Account})
	require.Contains(t, of.Location, "/vault")
	require.Contains(t, of.CopyOf.Location, strings.TrimPrefix(whole, "s3://"))
	require.Nil(t, of.CopyOf.CopyOf)
	shown := run(cli.ExitDone, "describe", name, "--storage", back).stdout
	require.Regexp(t, `(?m)^copy of      \S+/vault, in eu-west-1 of account 222222222222\n  itself of  \S+, in us-west-2 of account `, shown)

	run(cli.ExitDone, "pin", name, "--storage", vault, "--reason", "audit")
	run(cli.ExitDone, "delete", name, "--storage", whole, "--yes", "--last", "--delete-rate", "100")
	require.Len(t, p.bed.EC2.Snapshots(), len(described.Snapshots), "those of the last copy alone")
	require.EqualValues(t, 6, p.runAway(t, remove...))
	run(cli.ExitDone, "unpin", name, "--storage", vault, "--yes")
	require.Equal(t, cli.ExitDone, p.runAway(t, remove...))
	require.Empty(t, p.bed.Vault.Snapshots())
	run(cli.ExitDone, "gc", "--storage", back, "--older-than", "0s", "--yes")
	run(cli.ExitDone, "list", "--check", "--storage", back)
	run(cli.ExitDone, "restore", name, "--to", "tidb/copy", "--storage", back)
	p.requireRows(t, "copy", rows)
}
