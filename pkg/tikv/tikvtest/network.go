package tikvtest

import (
	"sync"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// Network carries raft messages between the stores of a testbed in process. Messages to a store that is not
// there are dropped, as they are when it is down. It is safe for concurrent use.
type Network struct {
	mu     sync.RWMutex
	stores map[storeKey]*Store
	links  map[[2]uint64]linkState
	joined map[storeKey]bool // PD knows them, also while they are down
}

type storeKey struct{ cluster, store uint64 }

type linkState struct {
	cut   bool
	delay time.Duration
}

// NewNetwork makes a network without stores and faults.
func NewNetwork() *Network {
	return &Network{stores: map[storeKey]*Store{}, links: map[[2]uint64]linkState{}, joined: map[storeKey]bool{}}
}

// Cut drops everything between two stores from now on, in both directions.
func (n *Network) Cut(a, b uint64) { n.set(a, b, linkState{cut: true}) }

// Slow delays everything between two stores, in both directions.
func (n *Network) Slow(a, b uint64, delay time.Duration) { n.set(a, b, linkState{delay: delay}) }

// Heal undoes Cut and Slow between two stores.
func (n *Network) Heal(a, b uint64) { n.set(a, b, linkState{}) }

func (n *Network) set(a, b uint64, s linkState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[link(a, b)] = s
}

func link(a, b uint64) [2]uint64 { return [2]uint64{min(a, b), max(a, b)} }

func (n *Network) attach(s *Store) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stores[storeKey{s.clusterID, s.id}] = s
}

// join notes that PD knows the store.
func (n *Network) join(s *Store) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.joined[storeKey{s.clusterID, s.id}] = true
}

func (n *Network) detach(s *Store) {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := storeKey{s.clusterID, s.id}
	if n.stores[key] == s {
		delete(n.stores, key)
	}
}

// reach returns the store that a message from s to the store with this id gets to now, or nil.
func (n *Network) reach(s *Store, to uint64) (*Store, time.Duration) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	l := n.links[link(s.id, to)]
	if l.cut {
		return nil, 0
	}
	return n.stores[storeKey{s.clusterID, to}], l.delay
}

// blocks reports whether the sender has given up the store with this id, and gives up one that PD does not know yet.
func (n *Network) blocks(from *Store, to uint64) bool {
	if !from.opts.BlockUnknownStores {
		return false
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if !n.joined[storeKey{from.clusterID, to}] {
		from.blocked.Store(to, true)
	}
	_, blocked := from.blocked.Load(to)
	return blocked
}

// send delivers raft messages of one region to one store, or drops them.
func (n *Network) send(from *Store, to, region uint64, messages ...raftpb.Message) {
	if n.blocks(from, to) {
		return
	}
	target, delay := n.reach(from, to)
	if target == nil {
		return
	}
	if delay > 0 {
		time.AfterFunc(delay, func() { target.raft.receive(region, from.id, messages) })
		return
	}
	target.raft.receive(region, from.id, messages)
}
