package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// expiredDrill is a cage, or a volume that outlived its cage, which has expired and of which the storage has no
// journal.
type expiredDrill struct {
	Namespace string           `json:"namespace,omitempty"`
	Volume    cluster.VolumeID `json:"volume,omitempty"`
	Run       cluster.RunID    `json:"run"`
	ToDo      string           `json:"todo"`
}

func expiredCageOf(c *cage.Cage) expiredDrill {
	todo := fmt.Sprintf("namespace %s has expired, and the storage has no journal of its drill: if it is not in use, "+
		"kubectl delete namespace %s, then delete the EBS volumes with the tag %s=%s", c.Namespace, c.Namespace,
		ebs.TagDrill, c.Run)
	return expiredDrill{Namespace: c.Namespace, Run: c.Run, ToDo: todo}
}

// expiredVolumeOf gets the persistent volume that names the volume, or "".
func expiredVolumeOf(v *ebs.Volume, pv string) expiredDrill {
	run := v.Tags[ebs.TagDrill]
	todo := fmt.Sprintf("volume %s has expired, and the storage has no journal of its drill %s: if it is not in use, ",
		v.ID, run)
	if pv != "" {
		todo += fmt.Sprintf("kubectl delete pv %s, then ", pv)
	}
	todo += fmt.Sprintf("aws ec2 delete-volume --volume-id %s", v.ID)
	return expiredDrill{Volume: v.ID, Run: cluster.RunID(run), ToDo: todo}
}

// expiredDrills lists what of drills only a person can remove: cages, and volumes that have none. Who may not list
// namespaces or persistent volumes is shown the rest: that is denied.
func expiredDrills(
	ctx context.Context, store objstore.Store, k *kube.Client, e drill.EBS,
) (out []expiredDrill, denied, err error) {
	now := time.Now()
	cages, err := drill.Orphans(ctx, store, k.Cages(), now)
	if failure.Is(err, failure.Denied) {
		denied, err = err, nil
	}
	if err != nil {
		return nil, nil, err
	}
	caged := map[string]bool{}
	for i := range cages {
		out, caged[string(cages[i].Run)] = append(out, expiredCageOf(&cages[i])), true
	}
	volumes, err := drill.OrphanVolumes(ctx, store, e, now)
	if err != nil || len(volumes) == 0 {
		return out, denied, err
	}
	named, err := k.Handles(ctx)
	if failure.Is(err, failure.Denied) {
		denied, err = errors.Join(denied, err), nil
	}
	if err != nil {
		return out, denied, err
	}
	for i := range volumes {
		if v := &volumes[i]; !caged[v.Tags[ebs.TagDrill]] {
			out = append(out, expiredVolumeOf(v, named[v.ID]))
		}
	}
	return out, denied, nil
}

// expiredItems are those for gc, which keeps them, as far as it may list them.
func (a *app) expiredItems(ctx context.Context, store objstore.Store) ([]gc.Item, error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, err
	}
	defer c.close()
	k, err := c.kube()
	if err != nil {
		return nil, err
	}
	e, err := c.ebs(ctx)
	if err != nil {
		return nil, err
	}
	found, _, err := expiredDrills(ctx, store, k, e)
	out := make([]gc.Item, 0, len(found))
	for _, f := range found {
		out = append(out, gc.Item{
			Kind: gc.KindDrill, ID: string(f.Run), Run: f.Run, Action: gc.ActionKeep, Reason: f.ToDo,
		})
	}
	return out, err
}
