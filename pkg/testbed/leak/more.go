package leak

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Everything is what there is: the objects of Kubernetes in all namespaces and outside of them, except for events, and the
// volumes and snapshots of EC2 with their tags, and the volumes of the other driver.
func Everything(bed *testbed.Testbed) map[string]bool {
	all := map[string]bool{}
	for _, o := range bed.Objects.Everything() {
		all[o] = true
	}
	for _, v := range bed.EC2.Volumes() {
		if v.State != ebs.VolumeDeleting {
			all[fmt.Sprint("volume ", v.ID, " ", v.Tags)] = true
		}
	}
	for _, v := range bed.Disks.List() {
		all[fmt.Sprint("volume ", v)] = true
	}
	for _, s := range bed.EC2.Snapshots() {
		all[fmt.Sprint("snapshot ", s.ID, " ", s.Tags)] = true
	}
	return all
}

// AwaitNoMore waits until there is nothing but what was there before: for so long something may still be on its way
// out.
func AwaitNoMore(ctx context.Context, bed *testbed.Testbed, before map[string]bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return wait.Reason(wait.Until(ctx, wait.Every(50*time.Millisecond), func() (bool, error) {
		more := Everything(bed)
		maps.DeleteFunc(more, func(what string, _ bool) bool { return before[what] })
		if len(more) == 0 {
			return true, nil
		}
		return false, fmt.Errorf("it was not there before: %q", slices.Sorted(maps.Keys(more)))
	}))
}
