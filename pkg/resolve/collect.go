package resolve

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// retryInterval is how often a store that is not there yet is asked again.
const retryInterval = 200 * time.Millisecond

// collect reads the metas of all stores at the same time, each as soon as PD lists it. The stores in PD must
// be exactly those of the manifest, and none may have restarted since it was read.
func (r *Resolver) collect(ctx context.Context, s *phase.Scope) error {
	if len(r.cfg.Stores) == 0 {
		return failure.New(failure.Unready, "read region metas", r.cfg.Cluster.String(), "the backup has no store that is not left out")
	}
	r.mu.Lock()
	r.addresses = map[cluster.StoreID]string{}
	r.mu.Unlock()
	start := time.Now()
	s.Expect(int64(len(r.cfg.Stores)), "stores")
	g := newGathering(r)
	defer g.stop()
	r.collecting.Store(true)
	defer r.collecting.Store(false)
	for {
		g.coming = r.cfg.Coming() // before what is found: what comes later is judged the next time
		g.takeEnded()
		found, foreign, err := r.findStores(ctx)
		if len(foreign) > 0 && !g.coming {
			return failure.New(failure.Unready, "match stores with the backup", r.cfg.Cluster.String(), "%s", strings.Join(foreign, ", "))
		}
		if err == nil {
			g.begin(ctx, found)
		}
		read := g.read()
		s.Reached(int64(read))
		if read == len(r.cfg.Stores) && err == nil {
			break
		}
		if err := g.decide(err); err != nil { //nolint:contextcheck // a plan is computed, and waits for nobody
			return err
		}
		if err := g.await(ctx); err != nil {
			return failure.Annotate(err, "read region metas", r.cfg.Cluster.String())
		}
	}
	r.metas = g.metas
	took := time.Since(start)
	s.Note("%d peers on %d stores, %.0f a second", g.metas.Len(), len(r.cfg.Stores), float64(g.metas.Len())/max(took.Seconds(), 1e-3))
	return nil
}

// findStores returns the stores of the backup that PD lists, and those that are foreign to it: the data of a store that is not
// of the backup would mix with the backup's.
func (r *Resolver) findStores(ctx context.Context) (found map[cluster.StoreID]pd.Store, foreign []string, err error) {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		return nil, nil, failure.Annotate(err, "list stores", r.cfg.Cluster.String())
	}
	found = map[cluster.StoreID]pd.Store{}
	for _, st := range stores {
		switch {
		case st.State == pd.StoreTombstone || !st.IsTiKV() || slices.Contains(r.cfg.TolerateStores, st.ID):
		case slices.Contains(r.cfg.Stores, st.ID):
			found[st.ID] = st
		default:
			foreign = append(foreign, "store "+st.ID.String()+" is not in the backup")
		}
	}
	return found, foreign, nil
}
