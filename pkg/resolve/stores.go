package resolve

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/parallel"
)

func (r *Resolver) address(store cluster.StoreID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addresses[store]
}

func (r *Resolver) setAddress(store cluster.StoreID, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses[store] = address
}

// name is the store in messages.
func (r *Resolver) name(store cluster.StoreID) string {
	return "store " + store.String() + " (" + r.address(store) + ")"
}

// eachStore calls f for all stores at the same time and waits for all.
func (r *Resolver) eachStore(ctx context.Context, f func(ctx context.Context, i int, store cluster.StoreID) error) error {
	return parallel.Each(ctx, 0, r.cfg.Stores, f)
}
