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
	// StatusAddress is that of the store's HTTP status port (20180 by default); "" if the store announces none.
	StatusAddress string
	State         StoreState
	Version       string
	StartedAt     time.Time // changes at every restart of the store
	Labels        map[string]string
	Leaders       int
	Regions       int
}

// IsTiKV reports whether the store is a TiKV store and not, say, a TiFlash one (label engine=tiflash).
func (s Store) IsTiKV() bool { return s.Labels["engine"] != "tiflash" }

// Scheduler is one of PD's schedulers.
type Scheduler struct {
	Name     string
	Paused   bool
	ResumeAt time.Time // zero if not paused or not known
}

// SafePoint is a service GC safe point.
type SafePoint struct {
	Service   string
	ExpiredAt time.Time // far in the future for those that do not expire
	TS        cluster.TS
}

// ResolvedTS is PD's minimum of the stores' resolved ts.
type ResolvedTS struct {
	TS       cluster.TS // 0 while no store reports
	RealTime bool
	Interval time.Duration // how often PD persists it; 0 means that reporting is off
	Stores   map[cluster.StoreID]cluster.TS
}

// Members is the topology half of the contract. Nothing here changes anything.
type Members interface {
	// ClusterID is PD's cluster id.
	ClusterID(ctx context.Context) (uint64, error)
	// Version is the cluster version that PD agreed on, "8.5.0".
	Version(ctx context.Context) (string, error)
	// Stores lists all stores, tombstones included.
	Stores(ctx context.Context) ([]Store, error)
	// Regions lists all regions that intersect [start, end) in key order, over all pages. A region
	// without a leader has a zero Leader. Keys are encoded.
	Regions(ctx context.Context, keys cluster.KeyRange) ([]cluster.Region, error)
	// Now takes a fresh timestamp.
	Now(ctx context.Context) (cluster.TS, error)
	// ResolvedTS reads the minimum resolved ts of the cluster and each store's.
	ResolvedTS(ctx context.Context) (ResolvedTS, error)
}

// Override is a config item that is overridden for a while.
type Override struct {
	Item  string
	Value string
	Until time.Time // zero where PD does not say
}

// Scheduling pauses and resumes what moves regions about.
type Scheduling interface {
	// Schedulers lists all schedulers; the list is empty until PD's coordinator has started.
	Schedulers(ctx context.Context) ([]Scheduler, error)
	// PauseScheduler pauses one scheduler until ttl has passed. PD forgets it on a change of leader.
	PauseScheduler(ctx context.Context, name string, ttl time.Duration) error
	// ResumeScheduler resumes one scheduler; resuming one that runs succeeds.
	ResumeScheduler(ctx context.Context, name string) error
	// SetTTLConfig overrides config items ("schedule.leader-schedule-limit") until ttl has passed.
	SetTTLConfig(ctx context.Context, items map[string]any, ttl time.Duration) error
	// TTLConfig reads the overrides in force, by item.
	TTLConfig(ctx context.Context) (map[string]string, error)
	// Overrides lists the overrides in force by item, with their ends. It asks PD once for each.
	Overrides(ctx context.Context) ([]Override, error)
	// DropTTLConfig removes overrides; removing one that is not there succeeds.
	DropTTLConfig(ctx context.Context, items []string) error
}

// GC holds garbage collection back.
type GC interface {
	// SafePoints lists the service safe points and the cluster's GC safe point.
	SafePoints(ctx context.Context) (services []SafePoint, gc cluster.TS, err error)
	// HoldGC sets the service's safe point for ttl and returns the lowest one of all services: if it is
	// above ts, GC has passed ts already and the hold is worth nothing (that is the caller's check).
	HoldGC(ctx context.Context, service string, ts cluster.TS, ttl time.Duration) (lowest cluster.TS, err error)
	// ReleaseGC removes the service's safe point; removing one that is not there succeeds.
	ReleaseGC(ctx context.Context, service string) error
}

// Operators makes PD change the members of regions.
type Operators interface {
	// RemovePeer has PD remove the region's peer on the store, and returns once PD has taken the order: see Regions for
	// its end. A peer that is not there is success. Limited while the region has another operator, or this one already.
	// A leader is moved first. PD then adds a peer again by itself, with a snapshot, unless replica-schedule-limit is
	// 0.
	RemovePeer(ctx context.Context, region cluster.RegionID, store cluster.StoreID) error
}

// Recovery is what a restored cluster needs of its new PD.
type Recovery interface {
	// MarkRecovering sets the mark that makes TiKV start in recovery mode. Idempotent.
	MarkRecovering(ctx context.Context) error
	// UnmarkRecovering removes it. Idempotent.
	UnmarkRecovering(ctx context.Context) error
	// Recovering reads the mark.
	Recovering(ctx context.Context) (bool, error)
	// RaiseTS makes every later timestamp larger than ts; a smaller ts changes nothing.
	RaiseTS(ctx context.Context, ts cluster.TS) error
	// RaiseAllocID makes every later id larger than id and reads it back by allocating one. It never lowers:
	// PD would, so the next id is compared first. Needs the mark.
	RaiseAllocID(ctx context.Context, id uint64) error
}
