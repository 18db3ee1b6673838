package operator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/tests/operator"
)

// brDocument is all that PingCAP's br knows of a backupmeta, with its types (br/pkg/config/ebs.go): it reads the document into
// them, and writes for the Operator what is left of it then. So mount_path, for one, is lost.
type brDocument struct {
	Cluster *struct {
		Version    string            `json:"cluster_version"`
		Type       string            `json:"full_backup_type"`
		ResolvedTS uint64            `json:"resolved_ts"`
		Replicas   map[string]uint64 `json:"replicas"`
	} `json:"cluster_info"`
	TiKV struct {
		Replicas int `json:"replicas"`
		Stores   []struct {
			ID      uint64      `json:"store_id"`
			Volumes []*brVolume `json:"volumes"`
		} `json:"stores"`
	} `json:"tikv"`
	TiDB       struct{ Replicas int } `json:"tidb"`
	PD         struct{ Replicas int } `json:"pd"`
	Kubernetes struct {
		PVCs    []*corev1.PersistentVolumeClaim `json:"pvcs"`
		PVs     []*corev1.PersistentVolume      `json:"pvs"`
		Cluster any                             `json:"crd_tidb_cluster"`
		Options map[string]any                  `json:"options"`
	} `json:"kubernetes"`
	Options map[string]any `json:"options"`
	Region  string         `json:"region"`
}

type brVolume struct {
	ID       string `json:"volume_id"`
	Role     string `json:"type"`
	Snapshot string `json:"snapshot_id"`
	Restored string `json:"restore_volume_id"`
	Zone     string `json:"volume_az"`
	Status   string `json:"status"`
}

// readByBR reads a backupmeta as br does, which refuses one without these.
func readByBR(t *testing.T, doc []byte) *brDocument {
	t.Helper()
	d := new(brDocument)
	require.NoError(t, json.Unmarshal(doc, d))
	require.NotNil(t, d.Cluster)
	require.Regexp(t, regexp.MustCompile(`^\d+\.\d+\.\d+`), d.Cluster.Version, "a semantic version")
	require.Equal(t, "aws-ebs", d.Cluster.Type)
	require.NotZero(t, d.Cluster.ResolvedTS)
	require.NotEmpty(t, d.TiKV.Stores)
	for _, s := range d.TiKV.Stores {
		require.Len(t, s.Volumes, len(d.TiKV.Stores[0].Volumes), "br counts those of the first store")
	}
	return d
}

// prepareByBR is the first half of a restore by PingCAP's br: the mark and the ts in PD, and a volume of each snapshot, with
// nothing but what br reads of the document. It returns what br writes for the Operator.
func (x *crossed) prepareByBR(t *testing.T, d *brDocument) []byte {
	t.Helper()
	p, err := pd.Open(within(t), pd.Config{Addresses: x.Bed.Nodes.Cluster(crossedTarget).PD.URLs()})
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.MarkRecovering(within(t)))
	require.NoError(t, p.RaiseTS(within(t), cluster.TS(d.Cluster.ResolvedTS)))
	ec2, err := ebs.Open(within(t), ebs.Config{Region: testbed.Region, Endpoint: x.Bed.AWS()})
	require.NoError(t, err)
	defer ec2.Close()
	sizes := map[string]int64{} // br gives none: EC2 takes the snapshot's
	for _, s := range x.Bed.EC2.Snapshots() {
		sizes[string(s.ID)] = s.SizeGiB
	}
	for _, s := range d.TiKV.Stores {
		for i, v := range s.Volumes {
			made, err := ec2.CreateVolume(within(t), ebs.VolumeRequest{
				Token: fmt.Sprintf("br-%d-%d", s.ID, i), Snapshot: cluster.SnapshotID(v.Snapshot), Zone: cluster.Zone(v.Zone),
				Spec: recordedSpec(sizes[v.Snapshot]), Tags: ebs.Tags{"TiDBCluster-BR": "new"},
			})
			require.NoError(t, err)
			v.Restored = string(made.ID)
			require.Eventually(t, func() bool {
				now, ok := x.Bed.EC2.Volume(made.ID)
				return ok && now.State == ebs.VolumeAvailable
			}, patience, 20*time.Millisecond)
		}
	}
	doc, err := json.Marshal(d)
	require.NoError(t, err)
	return doc
}

// recordedSpec is the volume that br's defaults give.
func recordedSpec(sizeGiB int64) cluster.VolumeSpec {
	spec := recordedVolume
	spec.SizeGiB = sizeGiB
	return spec
}

// So are the documents of a backup that the Operator described, and of one that tisnap made on its own.
func TestBackupmeta_GoldenFiles_HaveWhatBRReads(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"backupmeta.recorded.json", "backupmeta.own.json"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			doc, err := os.ReadFile("../../pkg/manifest/testdata/" + file)
			require.NoError(t, err)
			d := readByBR(t, doc)
			require.Len(t, d.TiKV.Stores, d.TiKV.Replicas)
			for _, s := range d.TiKV.Stores {
				for _, v := range s.Volumes {
					require.True(t, v.ID != "" && v.Role != "" && v.Snapshot != "" && v.Zone != "" && v.Restored == "", "%+v", v)
				}
			}
		})
	}
}

// A Backup of this br has all that PingCAP's br needs: volumes that are made by its rules and of its fields alone are bound by
// the Operator, and hold the backup.
func TestCrossed_BackupOfTheDropIn_HasWhatBRReads(t *testing.T) {
	t.Parallel()
	x := newCrossed(t, operator.Prefix)
	ts, err := x.Backup(within(t), crossedSource)
	require.NoError(t, err)
	require.NoError(t, x.load.Close())
	_, err = x.Bed.DestroyCluster(within(t), crossedSource)
	require.NoError(t, err)
	doc, err := x.Download(within(t), "backupmeta")
	require.NoError(t, err)
	d := readByBR(t, doc)
	require.Equal(t, uint64(ts), d.Cluster.ResolvedTS)

	require.NoError(t, x.CreateTarget(within(t), crossedTarget, 3))
	require.NoError(t, x.Upload(within(t), "restoremeta", x.prepareByBR(t, d)))
	require.NoError(t, x.BindVolumes(within(t), crossedTarget))
	_, err = x.RestoreData(within(t), crossedTarget)
	require.NoError(t, err)
	require.NoError(t, x.Finish(within(t), crossedTarget))
	x.verify(t, ts)
}
