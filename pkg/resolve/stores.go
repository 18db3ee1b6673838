package resolve

import (
	"context"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
)

// storeList has the backup's stores and where each was last called. It is safe for concurrent use.
type storeList struct {
	cfg *settings
	pd  pd.Members

	mu        sync.Mutex
	addresses map[cluster.StoreID]string
}

func newStoreList(cfg *settings, p pd.Members) *storeList {
	return &storeList{cfg: cfg, pd: p, addresses: map[cluster.StoreID]string{}}
}

func (l *storeList) address(store cluster.StoreID) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addresses[store]
}

func (l *storeList) setAddress(store cluster.StoreID, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addresses[store] = address
}

// name returns the store's name for messages.
func (l *storeList) name(store cluster.StoreID) string {
	return "store " + store.String() + " (" + l.address(store) + ")"
}

// find returns the backup's stores in PD, and foreign ones: the data of a store that is not in the backup would mix
// with the backup's.
func (l *storeList) find(ctx context.Context) (found map[cluster.StoreID]pd.Store, foreign []string, err error) {
	stores, err := l.pd.Stores(ctx)
	if err != nil {
		return nil, nil, failure.Annotate(err, "list stores", l.cfg.Cluster.String())
	}
	found = map[cluster.StoreID]pd.Store{}
	for _, st := range stores {
		switch {
		case st.State == pd.StoreTombstone || !st.IsTiKV() || slices.Contains(l.cfg.TolerateStores, st.ID):
		case slices.Contains(l.cfg.Stores, st.ID):
			found[st.ID] = st
		default:
			foreign = append(foreign, "store "+st.ID.String()+" is not in the backup")
		}
	}
	return found, foreign, nil
}
