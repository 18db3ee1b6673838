package resolve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// again is how often a store that is not there yet is asked again.
const again = 200 * time.Millisecond

// collect reads the metas of all stores at the same time. The stores in PD must be exactly those of the
// manifest.
func (r *Resolver) collect(ctx context.Context, s *phase.Scope) error {
	addresses, err := r.expectStores(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.addresses = addresses
	r.mu.Unlock()
	s.Expect(int64(len(r.cfg.Stores)), "stores")
	metas := NewMetas()
	err = r.eachStore(ctx, func(ctx context.Context, _ int, store cluster.StoreID) error {
		err := r.collectStore(ctx, store, metas)
		s.Advance(1)
		return err
	})
	r.metas = metas
	return err
}

// collectStore asks again while a store does not answer, as one that restarts does, but not for ever: a process
// that dies on its volumes each time would hold up the run until its deadline.
func (r *Resolver) collectStore(ctx context.Context, store cluster.StoreID, metas *Metas) error {
	moved := time.Now()
	for {
		table := metas.Begin(store)
		err := r.tikv.RegionMetas(ctx, r.address(store), func(m tikv.RegionMeta) error {
			moved = time.Now()
			return table.Add(&m)
		})
		if err == nil {
			return nil
		}
		if time.Since(moved) > r.cfg.Stall {
			return failure.New(failure.Limited, "read region metas", r.name(store), "nothing came for %s: %w", r.cfg.Stall, err).
				WithHint("look at the log of the store's pod: its process may not run on what its volumes hold")
		}
		if k := failure.KindOf(err); k != failure.Unknown && k != failure.Limited {
			return failure.Annotate(err, "read region metas", r.name(store))
		}
		if wait.For(ctx, again) != nil {
			return failure.Annotate(err, "read region metas", r.name(store))
		}
	}
}

// expectStores returns the addresses of the stores and refuses any difference between PD and the manifest.
func (r *Resolver) expectStores(ctx context.Context) (map[cluster.StoreID]string, error) {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list stores", r.cfg.Cluster.String())
	}
	addresses := map[cluster.StoreID]string{}
	var wrong []string
	for _, st := range stores {
		if st.State == pd.StoreTombstone || !st.IsTiKV() {
			continue
		}
		addresses[st.ID] = st.Address
		if slices.Contains(r.cfg.TolerateStores, st.ID) {
			continue
		}
		if !slices.Contains(r.cfg.Stores, st.ID) {
			wrong = append(wrong, "store "+st.ID.String()+" is not in the backup")
		}
	}
	for _, id := range r.cfg.Stores {
		if addresses[id] == "" {
			wrong = append(wrong, "store "+id.String()+" is missing")
		}
	}
	if len(wrong) > 0 {
		return nil, failure.New(failure.Unready, "match stores with the backup", r.cfg.Cluster.String(), "%s", strings.Join(wrong, ", "))
	}
	return addresses, nil
}

func (r *Resolver) name(store cluster.StoreID) string {
	return "store " + store.String() + " (" + r.address(store) + ")"
}

// eachStore calls f for all stores at the same time and waits for all.
func (r *Resolver) eachStore(ctx context.Context, f func(ctx context.Context, i int, store cluster.StoreID) error) error {
	errs := make([]error, len(r.cfg.Stores))
	var wg sync.WaitGroup
	for i, id := range r.cfg.Stores {
		wg.Go(func() { errs[i] = f(ctx, i, id) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
