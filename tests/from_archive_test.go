package tests

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// archives are two archives of a cluster whose account is gone, and its rows at both.
type archives struct {
	flags []string // of the repository
	ids   [2]string
	rows  [2]*workload.Copy
}

// archivedTwice archives two backups of a cluster under the policy that the manifests have, and loses the account, and with it
// the snapshots and the storage.
func archivedTwice(t *testing.T) archives {
	t.Helper()
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 50})
	c, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 100, Clients: 2, Regions: 6, Seed: 1})
	require.NoError(t, err)
	defer func() { require.NoError(t, load.Close()) }()
	require.NoError(t, load.Load(t.Context()))
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(key, []byte(identity.String()), 0o600))
	out := archives{flags: []string{"--repo", "file://" + t.TempDir(), "--repo-identity", key}}
	e := p.run(t, append([]string{"archive", "init", "--recipient", identity.Recipient().String()}, out.flags[:2]...)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	p.bed.EC2.AllowOnly(policyActions(t)...)
	for i := range out.ids {
		if i > 0 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.NoError(t, load.Run(ctx))
			cancel()
			require.NoError(t, load.Settle(t.Context()))
		}
		out.rows[i] = resolvedRows(t, c, load)
		backup := fmt.Sprintf("backup-%d", i)
		e := p.run(t, "backup", prod.String(), "--name", backup, "--consistent-now", "--storage", whole)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		e = p.run(t, append([]string{"archive", "create", backup, "--storage", whole, "-o", "json"}, out.flags...)...)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		var made struct{ Archive string }
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &made))
		out.ids[i] = made.Archive
	}
	p.bed.Close()
	return out
}

// resolvedRows are the rows that a consistent backup taken now has.
func resolvedRows(t *testing.T, c *testbed.Cluster, load *workload.Workload) *workload.Copy {
	t.Helper()
	db, err := load.Cluster(t.Context())
	require.NoError(t, err)
	now, err := db.Now(t.Context())
	require.NoError(t, err)
	rows, err := load.CopyAt(t.Context(), now)
	require.NoError(t, err)
	require.NoError(t, c.AwaitResolved(t.Context(), now))
	return rows
}

func (p *place) requireRows(t *testing.T, name string, want *workload.Copy) {
	t.Helper()
	c, err := p.bed.AwaitCluster(t.Context(), cluster.Name{Namespace: "tidb", Name: name})
	require.NoError(t, err)
	db, err := workload.Connect(t.Context(), c.PD.URLs())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	now, err := db.Now(t.Context())
	require.NoError(t, err)
	got, err := db.CopyAt(t.Context(), now)
	require.NoError(t, err)
	require.Equal(t, want.Rows, got.Rows)
}

// TestRestore_FromArchive_InAnotherAccount restores two archives in an account that has never seen their cluster, with a
// storage of its own, by the policy's permissions alone. What was put is not put again after a failure that the same command
// survives, and no snapshot is left.
func TestRestore_FromArchive_InAnotherAccount(t *testing.T) {
	t.Parallel()
	a := archivedTwice(t)
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 50, Faults: faults})
	p.bed.EC2.AllowOnly(policyActions(t)...)
	restore := func(id, to string, more ...string) ending {
		args := []string{"restore", id, "--from-archive", "--to", "tidb/" + to, "--storage", whole, "--timeout", "2m", "-o", "json"}
		return p.run(t, append(append(args, a.flags...), more...)...)
	}
	before := p.bed.MutatingCalls()
	e := restore("latest", "dry", "--dry-run")
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.Equal(t, before, p.bed.MutatingCalls(), "a dry run changes nothing")
	var plan struct {
		FromArchive struct {
			Archive              string
			Bytes, Requests      int64
			Seconds, RequestsUSD float64
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &plan))
	require.Equal(t, a.ids[1], plan.FromArchive.Archive)
	require.Equal(t, plan.FromArchive.Bytes>>19, plan.FromArchive.Requests)
	require.InDelta(t, float64(plan.FromArchive.Requests)*6e-6, plan.FromArchive.RequestsUSD, 1e-9)

	for i, id := range a.ids {
		to := fmt.Sprintf("copy-%d", i)
		e := restore(id, to)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.Contains(t, e.stdout, `"write snapshots"`, "the phase is in the report")
		p.requireRows(t, to, a.rows[i])
	}
	for _, s := range p.bed.EC2.Snapshots() {
		require.Fail(t, "a snapshot is left", "%+v", s)
	}

	// A restore that fails deletes the snapshots that it made, and no others.
	e = p.run(t, append([]string{"archive", "restore", "latest", "--to-snapshots"}, a.flags...)...)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	own := len(p.bed.EC2.Snapshots())
	require.NoError(t, faults.Add(fault.Rule{Point: "ec2.CreateVolume", Position: fault.Before, Code: "InvalidParameterValue", Times: -1}))
	e = restore("backup-0", "failed", "--run-id", "fails")
	require.NotEqual(t, cli.ExitDone, e.code)
	require.Len(t, p.bed.EC2.Snapshots(), own, e.stderr)
	for _, s := range p.bed.EC2.Snapshots() {
		require.NotContains(t, s.Tags, ebs.TagRun)
	}
}

// TestRestore_FromArchive_WrongFlags_Refused holds what cannot go together.
func TestRestore_FromArchive_WrongFlags_Refused(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{})
	for _, args := range []string{
		"--from-archive --before 1h", "--from-archive --verify-key x", "--from-archive",
		"--from-archive --repo file://" + t.TempDir() + " --repo-passphrase-file none",
	} {
		e := p.refused(t, append([]string{"restore", "latest", "--to", "tidb/copy", "--storage", whole}, strings.Fields(args)...)...)
		require.Equal(t, cli.ExitCode(2), e.code, "%s: %s", args, e.stderr)
	}
}
