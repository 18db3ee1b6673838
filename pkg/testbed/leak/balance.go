package leak

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Await is Balance once what is under way in EC2 has ended: for so long it compares again.
func Await(ctx context.Context, bed *testbed.Testbed, store objstore.Store, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return wait.Reason(wait.Until(ctx, wait.Every(50*time.Millisecond), func() (bool, error) {
		err := Balance(ctx, bed, store)
		return err == nil, err
	}))
}

// Balance compares what EC2 holds with what is named: by the sealed manifests in the store, and by the claims
// of the clusters that exist. An error lists every snapshot and volume that nothing names, every one that is
// named and gone, and every fast snapshot restore that is on.
func Balance(ctx context.Context, bed *testbed.Testbed, store objstore.Store) error {
	var wrong []string
	named, err := sealedSnapshots(ctx, store)
	if err != nil {
		return err
	}
	for _, s := range bed.EC2.Snapshots() {
		if !named[s.ID] {
			wrong = append(wrong, fmt.Sprintf("snapshot %s of run %s is in no sealed manifest", s.ID, s.Tags[ebs.TagRun]))
		}
		delete(named, s.ID)
	}
	for id := range named {
		wrong = append(wrong, fmt.Sprintf("snapshot %s is sealed and gone", id))
	}
	claimed := claimedVolumes(bed)
	for _, v := range bed.EC2.Volumes() {
		if len(v.Tags) == 0 || v.State == ebs.VolumeDeleting {
			continue // the boot volume of a node, or one on its way out
		}
		if !claimed[v.ID] {
			wrong = append(wrong, fmt.Sprintf("volume %s (%s) of run %s is of no cluster", v.ID, v.State, v.Tags[ebs.TagRun]))
		}
		delete(claimed, v.ID)
	}
	for _, id := range bed.Disks.List() {
		if !claimed[id] {
			wrong = append(wrong, fmt.Sprintf("volume %s is of no cluster", id))
		}
		delete(claimed, id)
	}
	for id := range claimed {
		wrong = append(wrong, fmt.Sprintf("volume %s is claimed and gone", id))
	}
	for _, f := range bed.EC2.FastRestores() {
		if f.State != ebs.FastRestoreDisabled && f.State != ebs.FastRestoreDisabling {
			wrong = append(wrong, fmt.Sprintf("fast snapshot restore of %s is %s", f.Snapshot, f.State))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("%d leaks: %s", len(wrong), strings.Join(wrong, "; "))
}

func sealedSnapshots(ctx context.Context, store objstore.Store) (map[cluster.SnapshotID]bool, error) {
	c := catalog.Catalog{Store: store}
	entries, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	named := map[cluster.SnapshotID]bool{}
	for _, e := range entries {
		if e.State != catalog.StateSealed {
			continue
		}
		m, err := c.Load(ctx, e.ID)
		if err != nil {
			return nil, err
		}
		for _, id := range m.SnapshotIDs() {
			named[id] = true
		}
	}
	return named, nil
}

// claimedVolumes are those of the persistent volumes that a claim of a cluster which exists is bound to.
func claimedVolumes(bed *testbed.Testbed) map[cluster.VolumeID]bool {
	out := map[cluster.VolumeID]bool{}
	for _, o := range append(bed.Objects.List("tidbclusters", "tidb"), bed.Objects.List("clusters", "tidb")...) {
		for _, v := range bed.Volumes(cluster.Name{Namespace: o.GetNamespace(), Name: o.GetName()}) {
			out[v] = true
		}
	}
	return out
}
