package pd

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// StoreState is PD's state of a store.
type StoreState string

// The states that PD reports.
const (
	StoreUp           StoreState = "Up"
	StoreDisconnected StoreState = "Disconnected"
	StoreDown         StoreState = "Down"
	StoreOffline      StoreState = "Offline"
	StoreTombstone    StoreState = "Tombstone"
)

// Store is a store as PD lists it.
type Store struct {
	ID      cluster.StoreID
	Address string // of the gRPC service
	// StatusAddress is the store's HTTP status address (port 20180 by default); "" if the store announces none.
	StatusAddress string
	State         StoreState
	Version       string
	StartedAt     time.Time // changes at every restart of the store
	Labels        map[string]string
	Leaders       int
	Regions       int
}

// IsTiKV reports whether the store is a TiKV store and not, for example, a TiFlash one (label engine=tiflash).
func (s Store) IsTiKV() bool { return s.Labels["engine"] != "tiflash" }

// Scheduler is one of PD's schedulers.
type Scheduler struct {
	Name     string
	Paused   bool
	ResumeAt time.Time // zero if not paused or unknown
}

// SafePoint is a service GC safe point.
type SafePoint struct {
	Service   string
	ExpiredAt time.Time // far in the future for those that do not expire
	TS        cluster.TS
}

// ResolvedTS is the minimum of the stores' resolved ts as PD computes it.
type ResolvedTS struct {
	TS       cluster.TS // 0 while no store reports
	RealTime bool
	Interval time.Duration // how often PD persists it; 0 if reporting is off
	Stores   map[cluster.StoreID]cluster.TS
}

// Members is the topology part of the contract. It is read-only.
type Members interface {
	// ClusterID is PD's cluster id.
	ClusterID(ctx context.Context) (uint64, error)
	// Version is the cluster version that PD agreed on, "8.5.0".
	Version(ctx context.Context) (string, error)
	// Stores lists all stores, tombstones included.
	Stores(ctx context.Context) ([]Store, error)
	// Regions lists all regions that intersect [start, end) in key order, across pages. A region
	// without a leader has a zero Leader. Keys are encoded.
	Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error)
	// Now takes a fresh timestamp.
	Now(ctx context.Context) (cluster.TS, error)
	// ResolvedTS reads the resolved ts of each store and their minimum.
	ResolvedTS(ctx context.Context) (ResolvedTS, error)
}

// Override is a config item with a temporary value.
type Override struct {
	Item  string
	Value string
	Until time.Time // zero if unknown
}

// Scheduling pauses and resumes PD's moving of regions.
type Scheduling interface {
	// Schedulers lists all schedulers; the list is empty until PD's coordinator has started.
	Schedulers(ctx context.Context) ([]Scheduler, error)
	// PauseScheduler pauses one scheduler for ttl. The pause is lost when PD's leader changes.
	PauseScheduler(ctx context.Context, name string, ttl time.Duration) error
	// ResumeScheduler resumes one scheduler; resuming a running one succeeds.
	ResumeScheduler(ctx context.Context, name string) error
	// SetTTLConfig overrides config items ("schedule.leader-schedule-limit") for ttl.
	SetTTLConfig(ctx context.Context, items map[string]any, ttl time.Duration) error
	// TTLConfig reads the overrides in force, by item.
	TTLConfig(ctx context.Context) (map[string]string, error)
	// Overrides lists the overrides in force by item, with their expiry, in one call to PD per override.
	Overrides(ctx context.Context) ([]Override, error)
	// DropTTLConfig removes overrides; removing a missing one succeeds.
	DropTTLConfig(ctx context.Context, items []string) error
}

// GC holds garbage collection back.
type GC interface {
	// SafePoints lists the service safe points and the cluster's GC safe point.
	SafePoints(ctx context.Context) (services []SafePoint, gc cluster.TS, err error)
	// HoldGC sets the service's safe point for ttl and returns the lowest one of all services. The caller must
	// check it: above ts, GC has already passed ts and nothing is held.
	HoldGC(ctx context.Context, service string, ts cluster.TS, ttl time.Duration) (lowest cluster.TS, err error)
	// ReleaseGC removes the service's safe point; removing a missing one succeeds.
	ReleaseGC(ctx context.Context, service string) error
}

// Operators makes PD change the members of regions.
type Operators interface {
	// RemovePeer makes PD remove the region's peer from the store, and returns once PD has accepted the operator: poll
	// Regions for its completion. A missing peer is success. Limited while the region has an operator, this one or
	// another. PD moves a leader away first, and replaces the peer by snapshot unless replica-schedule-limit is 0.
	RemovePeer(ctx context.Context, region cluster.RegionID, store cluster.StoreID) error
}

// Recovery is what a restored cluster needs from its new PD.
type Recovery interface {
	// MarkRecovering sets the mark that makes TiKV start in recovery mode. Idempotent.
	MarkRecovering(ctx context.Context) error
	// UnmarkRecovering removes it. Idempotent.
	UnmarkRecovering(ctx context.Context) error
	// Recovering reads the mark.
	Recovering(ctx context.Context) (bool, error)
	// RaiseTS makes every later timestamp larger than ts; a smaller ts changes nothing.
	RaiseTS(ctx context.Context, ts cluster.TS) error
	// RaiseAllocID makes every later id larger than id and allocates one to verify it. PD would also lower the
	// allocator, so the next id is compared first. Needs the mark.
	RaiseAllocID(ctx context.Context, id uint64) error
}
