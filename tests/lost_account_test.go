package tests

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tidb"
)

const (
	vaultBucket  = "vault" // of the vault's account
	vaultStorage = "s3://" + vaultBucket + "/dr"
	intoVault    = "us-west-2a=eu-west-1a,us-west-2b=eu-west-1b,us-west-2c=eu-west-1c"
)

// TestPull_AccountAndRegionAreLost_CopyIsRestored pulls two backups into another account, region and bucket, with the
// credentials of that account alone. Then the source's cluster, snapshots and whole bucket are destroyed. The copy is
// restored there with every key and value that the cluster had; a drill of it passes, and one of a copy of which one store is that of
// the older backup fails at its checks; neither leaves anything.
func TestPull_AccountAndRegionAreLost_CopyIsRestored(t *testing.T) {
	t.Parallel()
	b := newBooks(t, 1, 1)
	b.backUp(t, "older")
	b.fill(t, version("first"), version("second"))
	data := everything(t, b.keys)
	b.backUp(t, "newer")
	require.NoError(t, b.keys.Close())
	stores := b.stores()
	vault := b.inVault(t)
	vault.sums = b.sumOfLedger(t)
	for _, name := range []string{"older", "newer"} {
		e := vault.run(t, "copy", name, "--from-storage", tornStorage, "--storage", vaultStorage)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
	}
	b.destroy(t)

	older, newer := vault.copies(t, "older"), vault.copies(t, "newer")
	e := vault.run(t, "restore", "newer", "--to", "tidb/copy", "--storage", vaultStorage, "--timeout", "1m", "--az-map", intoVault)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	target := cluster.Name{Namespace: "tidb", Name: "copy"}
	restored, err := workload.Connect(t.Context(), vault.bed.Nodes.Cluster(target).PD.URLs())
	require.NoError(t, err)
	require.Equal(t, data, everything(t, restored))
	require.NoError(t, restored.Close())
	_, err = vault.bed.DestroyCluster(t.Context(), target)
	require.NoError(t, err)

	vault.before = leak.Everything(vault.bed)
	e, out := vault.drillOf(t, "newer", "--az-map", intoVault)
	require.Equal(t, cli.ExitDone, e.code, e.stderr)
	require.True(t, out.Passed)
	require.Equal(t, []checks.Outcome{checks.Passed}, outcomesOf(out.Report.Drilled.Found, checks.OfChecksum))
	vault.nothingOfDrills(t)
	vault.exchange(t, newer, older, stores[1])
	e, out = vault.drillOf(t, "newer", "--az-map", intoVault)
	require.Equal(t, cli.ExitCode(12), e.code, e.stderr)
	d := out.Report.Drilled
	require.Equal(t, []drill.State{drill.Passed, drill.Failed, drill.Gone}, []drill.State{d.Restore, d.Checks, d.TearDown})
	require.Contains(t, e.stderr, "data inconsistency in table: ledger, index: owner")
	require.Equal(t, []checks.Outcome{checks.Failed}, outcomesOf(d.Found, checks.OfChecksum))
	vault.nothingOfDrills(t)
	require.Len(t, vault.bed.EC2.Snapshots(), len(older)+len(newer))
}

// sumOfLedger is the ledger's checksum in the source, for a drill's file.
func (b *books) sumOfLedger(t *testing.T) string {
	t.Helper()
	db, err := tidb.Open(t.Context(), tidb.Config{Address: b.bed.Nodes.Cluster(prod).SQL()})
	require.NoError(t, err)
	defer db.Close()
	sum, err := db.Checksum(t.Context(), tidb.Table{Schema: ledger.Schema, Name: ledger.Name})
	require.NoError(t, err)
	return fmt.Sprintf("sums: [{table: %s.%s, crc64xor: %d, kvs: %d, bytes: %d}]\n", ledger.Schema, ledger.Name, sum.CRC64XOR, sum.KVs, sum.Bytes)
}

// outcomesOf are those of the checks of a kind.
func outcomesOf(r *checks.Result, kind checks.Kind) (out []checks.Outcome) {
	for _, c := range r.Checks {
		if c.Kind == kind {
			out = append(out, c.Outcome)
		}
	}
	return out
}

// everything is every key of TiDB's tables with its value, as it is now.
func everything(t *testing.T, c *workload.Cluster) map[string]string {
	t.Helper()
	now, err := c.Now(t.Context())
	require.NoError(t, err)
	out := map[string]string{}
	require.NoError(t, c.Scan(t.Context(), now, []byte("t"), func(key, value []byte) error {
		out[string(key)] = string(value)
		return nil
	}))
	require.Greater(t, len(out), 2*entries)
	return out
}

// inVault is a Kubernetes cluster in the vault's account and region, which may read the snapshots that there are now.
func (b *books) inVault(t *testing.T) *books {
	t.Helper()
	bed, err := b.bed.AddKubernetes(context.WithoutCancel(t.Context()), b.bed.Vault, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	for _, s := range b.bed.EC2.Snapshots() {
		form := url.Values{
			"Action": {"ModifySnapshotAttribute"}, "Version": {"2016-11-15"}, "SnapshotId": {string(s.ID)},
			"CreateVolumePermission.Add.1.UserId": {testbed.VaultAccount},
		}
		b.post(t, b.bed.AWS()+"/", "application/x-www-form-urlencoded; charset=utf-8", form.Encode())
	}
	role := b.bed.Vault.AddRole("tisnap", "")
	b.bed.S3.CreateBucket(vaultBucket)
	return &books{storageURL: vaultStorage, place: &place{bed: bed, flags: []string{"--ebs-role-arn", role}}}
}

// destroy destroys the cluster, all snapshots of its account and the bucket of its backups.
func (b *books) destroy(t *testing.T) {
	t.Helper()
	_, err := b.bed.DestroyCluster(t.Context(), prod)
	require.NoError(t, err)
	for _, s := range b.bed.EC2.Snapshots() {
		b.deleteSnapshot(t, s.ID)
	}
	require.Empty(t, b.bed.EC2.Snapshots())
	b.bed.S3.DropBucket(testbed.Bucket)
	_, err = b.storage(t, b.storageURL).List(t.Context(), "")
	require.ErrorContains(t, err, "NoSuchBucket")
}

// ofVolume is what identifies a volume's copies: the store, and the volume by its role.
type ofVolume struct{ store, data, raftLog string }

func volumeOf(s ebs.Snapshot) ofVolume {
	return ofVolume{
		store: s.Tags[ebs.TagStore], data: s.Tags[ebs.TagVolumeOf+string(cluster.RoleData)],
		raftLog: s.Tags[ebs.TagVolumeOf+string(cluster.RoleRaftLog)],
	}
}

// copies are a backup's, by their volumes.
func (b *books) copies(t *testing.T, name string) map[ofVolume]cluster.SnapshotID {
	t.Helper()
	out := map[ofVolume]cluster.SnapshotID{}
	for _, s := range b.bed.EC2.Snapshots() {
		if s.Tags[ebs.TagBackup] == name {
			out[volumeOf(s)] = s.ID
		}
	}
	require.Len(t, out, 6)
	return out
}

// exchange puts into the copies of one store what the other copies of it hold.
func (b *books) exchange(t *testing.T, of, other map[ofVolume]cluster.SnapshotID, store string) {
	t.Helper()
	exchanged := 0
	for volume, id := range of {
		if volume.store != store {
			continue
		}
		image, err := b.bed.EC2.Image(other[volume])
		require.NoError(t, err)
		require.NoError(t, b.bed.EC2.SetImage(id, image))
		exchanged++
	}
	require.Equal(t, 2, exchanged)
}
