package operator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/round"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/tests/operator"
)

const patience = 4 * time.Minute

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// br is the program as it is shipped.
func program(t *testing.T) string {
	t.Helper()
	path, err := shipped.BR()
	require.NoError(t, err)
	return path
}

// byBR backs up as PingCAP's br does: what is in the storage afterwards is br's backupmeta and nothing of tisnap. The
// snapshots and the ts are those of a backup that tisnap makes in another storage.
type byBR struct {
	*operator.Operator

	stores int
}

// Backup implements round.Driver.
func (b *byBR) Backup(ctx context.Context, bed *testbed.Testbed) (cluster.TS, error) {
	b.Bed = bed
	meta, err := operator.ClusterMeta(bed, round.Source())
	if err != nil {
		return 0, err
	}
	const other = "s3://" + testbed.Bucket + "/other"
	var out bytes.Buffer
	code := cli.Run(ctx, []string{
		"backup", round.Source().String(), "--name", "b", "--storage", other, "--endpoint-url", bed.AWS(), "--region", testbed.Region,
		"--kubeconfig", bed.Kubeconfig(), "--progress", "plain",
	}, cli.Streams{Out: &out, Err: &out}, cli.Version{Version: "test"})
	if code != 0 {
		return 0, fmt.Errorf("backup ended with %d: %s", code, &out)
	}
	store, err := objstore.Open(ctx, other, objstore.Config{Region: testbed.Region, Endpoint: bed.AWS()})
	if err != nil {
		return 0, err
	}
	m, err := catalog.Catalog{Store: store}.Load(ctx, "b")
	if err != nil {
		return 0, err
	}
	doc, err := asBR(meta, m)
	if err != nil {
		return 0, err
	}
	for key, body := range map[string][]byte{"clustermeta": meta, "backupmeta": doc, "backup.lock": []byte("DO NOT DELETE")} {
		if err := b.Upload(ctx, key, body); err != nil {
			return 0, err
		}
	}
	return m.BackupTS, nil
}

// asBR fills in a clustermeta as br's backup does. It is written without tisnap's own types, as br's is.
func asBR(clusterMeta []byte, m *manifest.Manifest) ([]byte, error) {
	var doc map[string]any
	decoder := json.NewDecoder(bytes.NewReader(clusterMeta))
	decoder.UseNumber()
	if err := decoder.Decode(&doc); err != nil {
		return nil, err
	}
	tikv, _ := doc["tikv"].(map[string]any)
	stores, _ := tikv["stores"].([]any)
	for _, s := range stores {
		store, _ := s.(map[string]any)
		volumes, _ := store["volumes"].([]any)
		for _, v := range volumes {
			volume, _ := v.(map[string]any)
			for _, snap := range m.Snapshots {
				if volume["volume_id"] == string(snap.Volume) {
					volume["snapshot_id"], volume["volume_az"], volume["status"] = snap.ID, snap.Zone, ""
				}
			}
		}
	}
	doc["cluster_info"] = map[string]any{
		"cluster_version": m.Source.Version, "full_backup_type": "aws-ebs", "resolved_ts": uint64(m.BackupTS), "replicas": nil,
	}
	doc["region"] = testbed.Region
	return json.Marshal(doc)
}

// Restore implements round.Driver.
func (b *byBR) Restore(ctx context.Context, bed *testbed.Testbed) error {
	meta, err := b.Download(ctx, "backupmeta")
	if err != nil {
		return err
	}
	d, err := manifest.ParseBR(meta)
	if err != nil {
		return err
	}
	return b.Operator.Restore(ctx, round.Target(), b.stores, cluster.TS(d.Cluster.ResolvedTS))
}

// recordedVolume is what the recorded command lines ask for: br's default type without IOPS and throughput.
var recordedVolume = cluster.VolumeSpec{Type: "gp3", IOPS: 3000, ThroughputMiB: 125}

// A backup of PingCAP's br, in a storage that holds nothing else, is restored by the recorded command lines.
func TestOperator_BackupOfBR_IsRestored(t *testing.T) {
	t.Parallel()
	b := &byBR{Operator: &operator.Operator{Dir: t.TempDir(), Program: program(t)}, stores: 3}
	result, err := round.Run(within(t), round.Config{
		Dir: t.TempDir(), Driver: b, Seed: 11, Nodes: 9, Stores: b.stores, Scale: 10, Volume: recordedVolume, Progress: t.Logf,
	})
	require.NoError(t, err)
	require.Positive(t, result.Rows)
	t.Log(result.Checks)
}
