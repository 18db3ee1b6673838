package operator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/testbed"
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
