package operator_test

import (
	"bytes"
	"context"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/tests/operator"
)

var (
	crossedSource = cluster.Name{Namespace: "tidb", Name: "prod"}
	crossedTarget = cluster.Name{Namespace: "tidb", Name: "copy"}
)

// crossed is a cluster with rows that one of the two programs backs up and the other one restores.
type crossed struct {
	*operator.Operator

	load *workload.Workload
}

func newCrossed(t *testing.T, place string) *crossed {
	t.Helper()
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Scale: 10, Rules: ebstest.QuickRules()})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	c, err := bed.CreateCluster(within(t), crossedSource, 3)
	require.NoError(t, err)
	x := &crossed{Operator: &operator.Operator{Bed: bed, Dir: t.TempDir(), Program: program(t), Place: place}}
	bed.S3.CreateBucket(operator.Bucket)
	x.load, err = workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 200, Clients: 2, Regions: 4, Seed: 31})
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.load.Close() })
	require.NoError(t, x.load.Load(within(t)))
	db, err := x.load.Cluster(within(t))
	require.NoError(t, err)
	loaded, err := db.Now(within(t))
	require.NoError(t, err)
	require.NoError(t, c.AwaitResolved(within(t), loaded))
	return x
}

// tisnap runs tisnap on a storage of the bucket and returns what it printed.
func (x *crossed) tisnap(t *testing.T, place string, args ...string) string {
	t.Helper()
	var out, stderr bytes.Buffer
	code := cli.Run(within(t), append(args, "--storage", "s3://"+operator.Bucket+"/"+place, "--endpoint-url", x.Bed.AWS(),
		"--region", testbed.Region, "--kubeconfig", x.Bed.Kubeconfig(), "--progress", "plain"), cli.Streams{Out: &out, Err: &stderr}, cli.Version{Version: "test"})
	require.Zero(t, code, out.String()+stderr.String())
	return out.String()
}

// verify reads the rows of the restored cluster.
func (x *crossed) verify(t *testing.T, ts cluster.TS) {
	t.Helper()
	db, err := workload.Connect(within(t), x.Bed.Nodes.Cluster(crossedTarget).PD.URLs())
	require.NoError(t, err)
	defer func() { _ = db.Close() }() // only read from
	got, err := x.load.History().VerifyRestored(within(t), db, ts)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Rows, 200)
}

// A Backup of the Operator by this br is a backup of tisnap, too: it is listed, described and restored.
func TestCrossed_BackupOfTheDropIn_IsRestoredByTisnap(t *testing.T) {
	t.Parallel()
	x := newCrossed(t, operator.Prefix)
	ts, err := x.Backup(within(t), crossedSource)
	require.NoError(t, err)
	require.NoError(t, x.load.Close())
	_, err = x.Bed.DestroyCluster(within(t), crossedSource)
	require.NoError(t, err)
	list := x.tisnap(t, operator.Prefix, "list")
	id := regexp.MustCompile(`br-\S+`).FindString(list)
	require.NotEmpty(t, id, list)
	require.Contains(t, x.tisnap(t, operator.Prefix, "describe", id), ts.String())
	x.tisnap(t, operator.Prefix, "restore", id, "--to", crossedTarget.String(), "--timeout", "4m")
	x.verify(t, ts)
}

// A backup of tisnap is one of br, with its own folder as the storage: the Operator restores it.
func TestCrossed_BackupOfTisnap_IsRestoredByTheOperator(t *testing.T) {
	t.Parallel()
	x := newCrossed(t, "own/backups/b")
	x.tisnap(t, "own", "backup", crossedSource.String(), "--name", "b")
	require.NoError(t, x.load.Close())
	_, err := x.Bed.DestroyCluster(within(t), crossedSource)
	require.NoError(t, err)
	require.NoError(t, x.CreateTarget(within(t), crossedTarget, 3))
	run, err := x.RestoreVolumes(within(t), crossedTarget)
	require.NoError(t, err)
	ts := cluster.TS(run.ResolvedTS("EBS restore success"))
	require.NotZero(t, ts)
	_, err = x.RestoreData(within(t), crossedTarget)
	require.NoError(t, err)
	require.NoError(t, x.Finish(within(t), crossedTarget))
	x.verify(t, ts)
}
