package restore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// startTiKV tells the Operator that the volumes are ready.
func (t *task) startTiKV(ctx context.Context, _ *phase.Scope) error {
	t.started = true
	return t.Kube.StartTiKV(ctx, t.opts.Target)
}

// awaitStores waits until PD lists exactly the backup's stores, all of them up but those that the cluster is to
// do without, and hands them to the resolver.
func (t *task) awaitStores(ctx context.Context, s *phase.Scope) error {
	var all, ids []cluster.StoreID
	for _, st := range t.manifest.Source.Stores {
		all = append(all, st.ID)
		if !slices.Contains(t.opts.TolerateStores, st.ID) {
			ids = append(ids, st.ID)
		}
	}
	s.Expect(int64(len(ids)), "stores")
	err := until(ctx, "wait for stores", t.opts.Target.String(), func(ctx context.Context) (bool, error) {
		up, err := t.upStores(ctx)
		if failure.Is(err, failure.Unready) { // PD is not bootstrapped: no store is up yet
			err, up = nil, map[cluster.StoreID]time.Time{}
		}
		if err != nil {
			return false, err
		}
		for _, id := range t.opts.TolerateStores {
			delete(up, id)
		}
		s.Reached(int64(len(up)))
		return len(up) == len(ids), t.missing(ctx, ids, up)
	})
	if err != nil {
		return err
	}
	t.stores = ids
	t.resolver.Target(resolve.Config{
		Cluster: t.opts.Target, Run: t.opts.Run, BackupTS: t.manifest.BackupTS, Stores: all, TolerateStores: t.opts.TolerateStores,
		AllocID: t.manifest.AllocID, Replicas: t.manifest.Replicas, Stall: min(stall, t.opts.Timeout),
		WaitApply: t.opts.WaitApply, MaxTS: t.manifest.MaxTS, Progress: resolve.NewProgressFile(t.Store, t.opts.Target, t.opts.Backup),
		Fence: t.fence,
	}, t.pd)
	return nil
}

// stall is how long nothing may change while the data are resolved; a shorter --timeout is the user's word.
const stall = 5 * time.Minute

// upStores maps the TiKV stores that are up to the start of their process.
func (t *task) upStores(ctx context.Context) (map[cluster.StoreID]time.Time, error) {
	stores, err := t.pd.Stores(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list stores", t.opts.Target.String())
	}
	up := map[cluster.StoreID]time.Time{}
	for _, st := range stores {
		if st.State == pd.StoreUp && st.IsTiKV() {
			up[st.ID] = st.StartedAt
		}
	}
	return up, nil
}

// missing says which stores are not there and what Kubernetes tells about the pods that do not run.
func (t *task) missing(ctx context.Context, ids []cluster.StoreID, up map[cluster.StoreID]time.Time) error {
	var gone []string
	for _, id := range ids {
		if _, ok := up[id]; !ok {
			gone = append(gone, id.String())
		}
	}
	if len(gone) == 0 {
		return nil
	}
	reasons := ""
	if pods, err := t.Kube.TiKVPods(ctx, t.opts.Target); err == nil {
		for _, p := range pods {
			if !p.Ready && p.Reason != "" {
				reasons += fmt.Sprintf("; pod %s: %s", p.Name, p.Reason)
			}
		}
	}
	return failure.New(failure.Unready, "wait for stores", t.opts.Target.String(), "stores %s are not up%s", strings.Join(gone, ", "), reasons)
}
