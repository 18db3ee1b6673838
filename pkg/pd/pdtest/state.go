package pdtest

import (
	"math/rand/v2"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// disk is what outlives a restart: etcd and the region storage.
type disk struct {
	clusterID    uint64
	bootstrapped bool
	allocEnd     uint64 // ids up to here may have been given out
	tsoSaved     int64  // physical ms that no timestamp given out is above
	gcSafePoint  uint64
	services     map[string]serviceSafePoint
	ttl          map[string]ttlItem
	lastLease    int64
	config       map[string]any
	recovering   bool
	stores       map[uint64]*metapb.Store
	regions      *regionTree
	schedulers   []string
	// schedulerArgs are the stores of those that are of stores, and disabled those that were removed.
	schedulerArgs map[string][]string
	disabled      []string
	minResolved   uint64
	kv            map[string]etcdValue // what clients put into etcd themselves
	revision      int64                // of the last change of kv
	rules         rules
	lacking       map[uint64]bool // regions of which an operator removed a peer that is not made up for
}

// memory is what the leader forgets when it restarts or another takes over.
type memory struct {
	allocBase, allocEnd uint64    // ids in (base, end] are reserved on disk
	physical, logical   int64     // last timestamp given out
	broken              bool      // the TSO cannot be loaded
	preparedAt          time.Time // zero until most regions were reported
	pauses              map[string]pause
	operators           map[uint64]*operator // the last of each region
	running             map[uint64]*operator // those of them that run
	stats               map[uint64]*storeStats
	streams             map[uint64]chan *pdpb.RegionHeartbeatResponse // by store, of stores on the network
}

type storeStats struct {
	stats    *pdpb.StoreStats
	resolved uint64
}

type pause struct{ at, until time.Time }

func newDisk(cfg Config) *disk {
	d := &disk{
		clusterID: cfg.ClusterID,
		lacking:   map[uint64]bool{}, services: map[string]serviceSafePoint{},
		ttl:        map[string]ttlItem{},
		lastLease:  7784368589222112624,
		config:     cfg.configOf(),
		stores:     map[uint64]*metapb.Store{},
		regions:    newRegionTree(),
		schedulers: defaultSchedulers(),

		schedulerArgs: map[string][]string{},
		kv:            map[string]etcdValue{},
		revision:      2,
		rules:         newRules(),
	}
	if d.clusterID == 0 {
		d.clusterID = 7_000_000_000_000_000_000 + rand.Uint64N(900_000_000_000_000_000)
	}
	for item, value := range cfg.Configs {
		d.config[item] = value
	}
	return d
}

// lastTSOMillis is where PD 8.5 can no longer load its window after a restart: some day past 2046-12.
const lastTSOMillis = 2429913600000

func newMemory(d *disk) *memory {
	return &memory{
		allocBase: d.allocEnd,
		allocEnd:  d.allocEnd,
		physical:  d.tsoSaved,
		broken:    d.tsoSaved > lastTSOMillis,
		pauses:    map[string]pause{},
		operators: map[uint64]*operator{},
		running:   map[uint64]*operator{},
		stats:     map[uint64]*storeStats{},
		streams:   map[uint64]chan *pdpb.RegionHeartbeatResponse{},
	}
}

func (m *memory) storeStats(id uint64) *storeStats {
	s := m.stats[id]
	if s == nil {
		s = &storeStats{}
		m.stats[id] = s
	}
	return s
}
