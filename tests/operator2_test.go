package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// A whole round of a cluster of TiDB Operator 2.x: it is restored into another one of that Operator, and every row is right.
func TestRound_OfOperator2_EveryRowIsRight(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	log := &shipped.Output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(log)
		}
	})
	r, err := round.Run(ctx, round.Config{
		Dir: t.TempDir(), Seed: 7, Scale: 4, Accounts: accounts, Regions: 8, Operator: 2,
		Tisnap: func(bed *testbed.Testbed) round.Tisnap {
			bed.Kube.ForgetGroup("pingcap.com")
			return inProcess(t, log)(bed)
		},
	})
	require.NoError(t, err)
	require.Greater(t, r.Rows, accounts, "each row was compared")
}

// TestOperator2_FromOutside runs whatever tisnap can do with a cluster of TiDB Operator 2.x, by the same commands and through port
// forwards.
func TestOperator2_FromOutside(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	p := newPlace(t, testbed.Config{Operator: 2, DNSNames: true, Faults: faults})
	p.bed.Kube.ForgetGroup("pingcap.com")
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	run := func(args ...string) ending {
		e := p.run(t, args...)
		require.Equal(t, cli.ExitDone, e.code, "%v: %s%s", args, e.stdout, e.stderr)
		return e
	}
	var stdout, stderr bytes.Buffer
	complete := []string{cobra.ShellCompNoDescRequestCmd, "backup", "--kubeconfig", p.bed.Kubeconfig(), "tidb/"}
	require.Equal(t, cli.ExitDone, cli.Run(t.Context(), complete, cli.Streams{Out: &stdout, Err: &stderr}, cli.Version{}), stderr.String())
	require.Equal(t, "tidb/prod\n:4\n", stdout.String())

	e := run("doctor", prod.String(), "--storage", whole, "--for", "backup")
	assert.Contains(t, e.stdout, "TiKV v8.5.0, 3 replicas")
	run("backup", prod.String(), "--storage", whole, "--dry-run")
	e = run("backup", prod.String(), "--name", string(firstBackup), "--storage", whole)
	assert.Contains(t, e.stdout, "through port forwards: 4 pods by")
	run("hold", "status", prod.String(), "--storage", whole)
	run("release", prod.String(), "--yes", "--storage", whole)

	e = run("list", "--storage", whole, "-o", "json")
	var doc struct{ Items []catalog.Entry }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
	list := doc.Items
	require.Len(t, list, 1)
	require.Equal(t, manifest.Operator2, list[0].Operator)
	require.Equal(t, 3, list[0].Stores)
	e = run("describe", string(firstBackup), "--storage", whole)
	assert.Contains(t, e.stdout, "TiDB Operator 2.x")

	to := []string{"--to", "tidb/copy", "--storage", whole}
	run("doctor", prod.String(), "--storage", whole, "--for", "restore")
	run(append([]string{"restore", string(firstBackup), "--dry-run"}, to...)...)
	failing := append([]string{"restore", string(firstBackup)}, to...)
	refused := fault.Rule{Point: "kube.update.persistentvolumeclaims", Position: fault.Before, Code: "RequestEntityTooLarge"}
	require.NoError(t, faults.Add(refused))
	e = p.run(t, failing...)
	require.NotEqual(t, cli.ExitDone, e.code)
	assert.Contains(t, e.stderr, "bind claim")
	p.withoutCopy(t)
	require.NoError(t, faults.Add(refused))
	e = p.run(t, append(failing, "--run-id", "kept", "--keep-on-failure")...)
	require.NotEqual(t, cli.ExitDone, e.code)
	require.NotNil(t, p.bed.Kube.Get("clusters", "tidb", "copy"), e.stderr)
	run("restore", "abort", "kept", "--storage", whole, "--yes", "--delete-rate", "100")
	p.withoutCopy(t)
	e = run(append([]string{"restore", string(firstBackup)}, to...)...)
	require.Len(t, p.bed.Kube.List("tikvs", "tidb"), 6)
	e = p.refused(t, append([]string{"restore", string(firstBackup)}, to...)...)
	assert.Contains(t, e.stderr, "the cluster exists")
	run("delete", string(firstBackup), "--yes", "--last", "--storage", whole)
	require.Empty(t, p.bed.EC2.Snapshots())
}

// withoutCopy requires that nothing of a restore into "copy" is left.
func (p *place) withoutCopy(t *testing.T) {
	t.Helper()
	for _, resource := range []string{"clusters", "pdgroups", "tikvgroups", "tidbgroups", "tikvs", "pods", "persistentvolumeclaims"} {
		for _, o := range p.bed.Kube.List(resource, "tidb") {
			require.NotContains(t, o.GetName(), "copy", resource)
		}
	}
	for _, pv := range p.bed.Kube.List("persistentvolumes", "") {
		require.NotContains(t, pv.GetName(), "tisnap-")
	}
	for _, v := range p.bed.EC2.Volumes() {
		require.Empty(t, v.Tags[ebs.TagRun], v.ID)
	}
}
