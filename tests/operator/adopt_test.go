package operator_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/tests/operator"
)

// The two parts of a VolumeBackup become one backup, which every command takes for any other, and which is restored
// into one Kubernetes cluster with every row. Deleting it leaves the parts and their snapshots.
func TestOperator_TwoKubernetesClusters_TheirPartsAreAdoptedAndRestoredAsOne(t *testing.T) {
	t.Parallel()
	f, c := two(t)
	east := f.Members[0].Bed
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 300, Clients: 4, Regions: 8, Seed: 22})
	require.NoError(t, err)
	t.Cleanup(func() { _ = load.Close() })
	require.NoError(t, load.Load(within(t)))
	require.NoError(t, f.Backup(within(t), func() error { return nil }))
	require.NoError(t, load.Settle(within(t)))
	require.NoError(t, load.Close())

	const whole, elsewhere = "s3://" + operator.Bucket + "/whole", "s3://" + operator.Bucket + "/copy"
	run := func(code cli.ExitCode, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append(args, "--storage", whole, "--endpoint-url", east.AWS(), "--region", testbed.Region,
			"--kubeconfig", east.Kubeconfig(), "--progress", "plain")
		got := cli.Run(within(t), args, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{Version: "test"})
		require.Equal(t, code, got, "%v: %s%s", args, stdout.String(), stderr.String())
		return stdout.String() + stderr.String()
	}
	parts := []string{}
	for _, m := range f.Members {
		parts = append(parts, "--part", "s3://"+operator.Bucket+"/"+m.Place)
	}
	adopt := append([]string{"adopt", "one"}, parts...)
	require.Contains(t, run(4, append([]string{"adopt", "one", "--part", "x=s3://" + operator.Bucket + "/none"}, parts...)...), "a completed Backup")
	require.Contains(t, run(cli.ExitDone, append(adopt, "--dry-run")...), "would be sealed as one")
	require.Regexp(t, `(?m)^vb1-k8s-a +tidb/prod-a `, run(cli.ExitDone, adopt...))
	require.Contains(t, run(cli.ExitDone, adopt...), "sealed as one", "again")

	require.Regexp(t, `(?m) one +tidb/prod-a +sealed .* 3 `, run(cli.ExitDone, "list", "-o", "wide"))
	require.Regexp(t, `(?m)^vb1-k8s-b +tidb/prod-b .* s3://`+operator.Bucket+`/vb1-k8s-b$`, run(cli.ExitDone, "describe", "one"))
	require.Contains(t, run(cli.ExitDone, "report", "one"), "cut parts")
	var described struct {
		Parts []struct {
			Stores []cluster.StoreID
		}
		Snapshots []struct{ ID cluster.SnapshotID }
	}
	require.NoError(t, json.Unmarshal([]byte(run(cli.ExitDone, "describe", "one", "-o", "json")), &described))
	require.Len(t, described.Parts, 2)
	require.Len(t, described.Snapshots, 6)
	run(cli.ExitDone, "lock", "one", "--mode", "governance", "--until", "1d")
	run(cli.ExitDone, "unlock", "one", "--yes")
	run(cli.ExitDone, "copy", "one", "--to-storage", elsewhere, "--wait=true")
	repo := []string{"--repo", "file://" + t.TempDir(), "--repo-identity", filepath.Join(t.TempDir(), "key")}
	identity, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(repo[3], []byte(identity.String()), 0o600))
	run(cli.ExitDone, append([]string{"archive", "init", "--recipient", identity.Recipient().String()}, repo[:2]...)...)
	run(cli.ExitDone, append([]string{"archive", "create", "one"}, repo...)...)
	require.Contains(t, run(cli.ExitDone, append([]string{"archive", "describe", "latest"}, repo...)...), "tidb/prod-a")

	for _, i := range []int{1, 0} {
		_, err := f.Members[i].Bed.DestroyCluster(within(t), f.Members[i].Source)
		require.NoError(t, err)
	}
	require.Contains(t, run(cli.ExitDone, "restore", "one", "--to", "tidb/single", "--dry-run"),
		"all 2 parts become one cluster here")
	run(cli.ExitDone, "restore", "one", "--to", "tidb/single")
	restored := east.Nodes.Cluster(cluster.Name{Namespace: "tidb", Name: "single"})
	require.Len(t, restored.Stores(), 3)
	db, err := workload.Connect(within(t), restored.PD.URLs())
	require.NoError(t, err)
	defer func() { _ = db.Close() }() // only read from
	got, err := load.History().VerifyRestored(within(t), db, min(f.Members[0].TS, f.Members[1].TS))
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Rows, 300)

	require.Contains(t, run(6, "delete", "one", "--yes"), "the only restorable backup")
	require.Contains(t, run(cli.ExitDone, "delete", "one", "--yes", "--last"), "its parts keep the snapshots")
	for _, s := range described.Snapshots {
		_, _, there := east.EC2.Snapshot(s.ID)
		require.True(t, there, s.ID)
	}
}
