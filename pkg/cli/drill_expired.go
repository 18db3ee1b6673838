package cli

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// expiredCage is a cage that has expired and that the storage has no journal of.
type expiredCage struct {
	Namespace string        `json:"namespace"`
	Run       cluster.RunID `json:"run"`
	ToDo      string        `json:"todo"`
}

func expiredCageOf(c *cage.Cage) expiredCage {
	todo := fmt.Sprintf("namespace %s has expired, and the storage has no journal of its drill: if it is not in use, "+
		"kubectl delete namespace %s, then delete the EBS volumes with the tag %s=%s", c.Namespace, c.Namespace,
		ebs.TagDrill, c.Run)
	return expiredCage{Namespace: c.Namespace, Run: c.Run, ToDo: todo}
}

// expired lists the cages that only a person can remove.
func (d *drillWork) expired(ctx context.Context) ([]expiredCage, error) {
	found, err := drill.Orphans(ctx, d.Store, d.Cages, time.Now())
	out := make([]expiredCage, 0, len(found))
	for i := range found {
		out = append(out, expiredCageOf(&found[i]))
	}
	return out, err
}

// expiredItems are those cages for gc, which keeps them. Who may not list namespaces has made none.
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
	found, err := drill.Orphans(ctx, store, k.Cages(), time.Now())
	if failure.Is(err, failure.Denied) {
		return nil, nil
	}
	var out []gc.Item
	for i := range found {
		out = append(out, gc.Item{
			Kind: gc.KindDrill, ID: string(found[i].Run), Run: found[i].Run, Action: gc.ActionKeep,
			Reason: expiredCageOf(&found[i]).ToDo,
		})
	}
	return out, err
}
