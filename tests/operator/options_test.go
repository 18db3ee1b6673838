package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/tests/operator"
)

// byOptions is a chain that keeps what EC2 had of the restored cluster's volumes, and was asked to enable.
type byOptions struct {
	chain

	volumes []ebs.Volume
	enabled int // snapshots that fast snapshot restore was enabled for
	left    []ebs.FastRestore
}

// Restore implements round.Driver.
func (o *byOptions) Restore(ctx context.Context, bed *testbed.Testbed) error {
	if err := o.chain.Restore(ctx, bed); err != nil {
		return err
	}
	for _, id := range bed.Volumes(round.Target()) {
		v, ok := bed.EC2.Volume(id)
		if !ok {
			return fmt.Errorf("volume %s is gone", id)
		}
		o.volumes = append(o.volumes, v)
	}
	for _, call := range bed.EC2.MutatingCalls() {
		if strings.Contains(call, "EnableFastSnapshotRestores") {
			o.enabled++
		}
	}
	o.left = bed.EC2.FastRestores()
	return nil
}

// spec.br.options of the CRs are behind all that the Operator gives itself: each of them counts, in EC2, through a whole
// chain, and every row is back.
func TestOperator_OptionsOfTheCRs_AreWhatEC2Makes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		backup, restore []string
		volume          cluster.VolumeSpec
		encrypted       bool
		zone            cluster.Zone
		fast            bool
	}{
		"gp3, encrypted, by fast snapshot restore": {
			backup: []string{"--concurrency=16", "--cloud-api-concurrency=4", "--ratelimit", "128"},
			restore: []string{
				"--volume-type=gp3", "--volume-iops=7000", "--volume-throughput=400", "--volume-encrypted=true", "--volume-scope=0", "--use-fsr=true",
			},
			volume: cluster.VolumeSpec{Type: "gp3", IOPS: 7000, ThroughputMiB: 400}, encrypted: true, zone: "us-west-2a", fast: true,
		},
		"io2 in another zone, each value after a space, with a log in JSON": {
			backup: []string{"--log-format", "json"},
			restore: []string{
				"--log-format=json", "--volume-type", "io2", "--volume-iops", "8000", "--target-az", "us-west-2b", "--volume-iops", "9000", "--checksum", "false",
			},
			volume: cluster.VolumeSpec{Type: "io2", IOPS: 9000}, zone: "us-west-2b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &byOptions{chain: chain{stores: 3, Operator: &operator.Operator{
				Dir: t.TempDir(), Program: program(t), BackupOptions: c.backup, RestoreOptions: c.restore,
			}}}
			result, err := round.Run(within(t), round.Config{
				Dir: t.TempDir(), Driver: o, Seed: 13, Accounts: 500, Regions: 9, Nodes: 9, Stores: o.stores, Scale: 10, Volume: c.volume, Progress: t.Logf,
				Rules: func(r *ebstest.Rules) { r.FastRestore.PerTiB, r.FastRestore.Aged = time.Minute, time.Hour }, // it is waited for in real time
			})
			require.NoError(t, err)
			require.Positive(t, result.Rows)
			require.Len(t, o.volumes, 6)
			for _, v := range o.volumes {
				got := v.Spec
				got.SizeGiB = 0
				require.Equal(t, c.volume, got)
				require.Equal(t, c.encrypted, v.Encrypted)
				require.Equal(t, c.zone, v.Zone)
			}
			require.Equal(t, c.fast, o.enabled > 0)
			require.Empty(t, o.left, "fast snapshot restore is billed until it is disabled")
		})
	}
}

// A scope that leaves volumes out is honoured, as the Operator's actions show: it binds all of a store's volumes or none.
func TestOperator_ScopeOfTheCR_MakesNoOtherVolumes(t *testing.T) {
	t.Parallel()
	x := newCrossed(t, operator.Prefix)
	_, err := x.Backup(within(t), crossedSource)
	require.NoError(t, err)
	require.NoError(t, x.load.Close())
	_, err = x.Bed.DestroyCluster(within(t), crossedSource)
	require.NoError(t, err)
	require.NoError(t, x.CreateTarget(within(t), crossedTarget, 3))
	x.RestoreOptions = []string{"--volume-scope=1"}
	run, err := x.RestoreVolumes(within(t), crossedTarget)
	require.ErrorContains(t, err, "no restored volume of")
	require.True(t, run.Printed("EBS restore success"))
	var made int
	for _, v := range x.Bed.EC2.Volumes() {
		if v.Tags["TiDBCluster-BR"] == "new" {
			made++
		}
	}
	require.Equal(t, 3, made, "of six volumes, three have TiKV's data")
}
