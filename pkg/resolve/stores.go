package resolve

import "github.com/tisnap/tisnap/pkg/cluster"

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
