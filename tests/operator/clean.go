package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// namedVolumes is what the Operator reads of a document to delete by it (pkg/backup/util/aws_ebs.go).
type namedVolumes struct {
	TiKV *struct {
		Stores []struct {
			Volumes []struct {
				Volume   string `json:"volume_id"`
				Snapshot string `json:"snapshot_id"`
				Restored string `json:"restore_volume_id"`
			} `json:"volumes"`
		} `json:"stores"`
	} `json:"tikv"`
}

// CleanVolumes is what the Operator does after a Restore's volumes have failed: it deletes the volumes that the restoremeta of
// the storage names, whosever they are, as far as EC2 has them. Without one it is NotFound.
func (o *Operator) CleanVolumes(ctx context.Context) error {
	doc, err := o.Download(ctx, "restoremeta")
	if err != nil {
		return err
	}
	var named namedVolumes
	if err := json.Unmarshal(doc, &named); err != nil {
		return err
	}
	client, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: o.Bed.AWS()})
	if err != nil {
		return err
	}
	defer client.Close()
	for _, s := range named.TiKV.Stores {
		for _, v := range s.Volumes {
			if err := client.DeleteVolume(ctx, cluster.VolumeID(v.Restored)); err != nil && !failure.Is(err, failure.NotFound) {
				return fmt.Errorf("delete volume %s: %w", v.Restored, err)
			}
		}
	}
	return nil
}

// beforeClean is how long the Job's entrypoint sleeps first, by a clock ten times as fast: a snapshot that EC2 does not show yet is
// taken for deleted.
const beforeClean = time.Second

// CleanBackup is the Job that the Operator makes when a failed Backup is deleted (cmd/backup-manager/app/clean, 1.6.6): it copies
// PREFIX/backupmeta by rclone, deletes the snapshots that the document names, and then all of the storage. Without a document
// it deletes nothing and succeeds. It reports whether there was one.
func (o *Operator) CleanBackup(ctx context.Context) (bool, error) {
	if err := wait.For(ctx, beforeClean); err != nil {
		return false, err
	}
	doc, err := o.rcloneCopy(ctx, "backupmeta")
	if err != nil || doc == nil {
		return false, err
	}
	var named namedVolumes
	if err := json.Unmarshal(doc, &named); err != nil {
		return true, err
	}
	client, err := ebs.Open(ctx, ebs.Config{Region: testbed.Region, Endpoint: o.Bed.AWS()})
	if err != nil {
		return true, err
	}
	defer client.Close()
	for _, s := range named.TiKV.Stores {
		for _, v := range s.Volumes {
			if err := client.DeleteSnapshot(ctx, cluster.SnapshotID(v.Snapshot)); err != nil && !failure.Is(err, failure.NotFound) {
				return true, fmt.Errorf("delete snapshot %q: %w", v.Snapshot, err)
			}
		}
	}
	store, err := o.Storage(ctx)
	if err != nil {
		return true, err
	}
	objects, err := store.List(ctx, "")
	for _, object := range objects {
		if err == nil {
			err = store.Delete(ctx, object.Key)
		}
	}
	return true, err
}

// rcloneCopy is the file NAME after `rclone copy PREFIX/NAME /`: the object of that name, or else the one of that name in the
// folder of that name. Rclone 1.60.1 does so. It is nil if there is neither, which rclone takes for nothing to copy.
func (o *Operator) rcloneCopy(ctx context.Context, name string) ([]byte, error) {
	for _, key := range []string{name, name + "/" + name} {
		doc, err := o.Download(ctx, key)
		if err == nil || !failure.Is(err, failure.NotFound) {
			return doc, err
		}
	}
	return nil, nil
}
