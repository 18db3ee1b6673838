package tikv

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Lease is one prepare-snapshot stream to one store. It is not safe for concurrent use.
// The store keeps the lease until it runs out even if the stream is lost; only Finish ends it early.
type Lease interface {
	// Renew sets the store's deadline to at least ttl from now (whole seconds) and reports whether
	// the deadline before was still in the future: false after the first call means that the hold was broken.
	Renew(ctx context.Context, ttl time.Duration) (wasValid bool, err error)
	// WaitApply waits until each region given has applied what its log held at receipt. The result holds
	// one entry for each region that failed; retry just those with fresh epochs.
	WaitApply(ctx context.Context, regions []cluster.Region) (failed map[cluster.RegionID]error, err error)
	// Finish ends the lease and reports whether it was valid to the end. The stream is closed in any case.
	Finish(ctx context.Context) (wasValid bool, err error)
	// Close ends the stream without ending the lease.
	Close()
}

// Holder is what a hold needs of a store. Addresses are PD's.
type Holder interface {
	// OpenLease connects and opens the stream; the store is not paused before the first Renew.
	// A TiKV that has no such service is Unready and the hint names the versions that have.
	OpenLease(ctx context.Context, address string) (Lease, error)
	// LedRegions lists the regions that the store says it leads, and those of them that have a conf change or merge
	// under way. Leader is not filled in: it is the store itself. TiKV calls a merge or split pending only once its
	// first command is applied: wait for that before.
	LedRegions(ctx context.Context, address string) (led []cluster.Region, pending []cluster.RegionID, err error)
	// FirstLock asks the region's leader for a lock whose transaction may commit at or below ts, and returns its start
	// ts, or 0 if there is none. A *RegionError means that it has to be asked again.
	FirstLock(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (cluster.TS, error)
	// SuspendImport denies imports until ttl has passed and reports whether they were denied before.
	SuspendImport(ctx context.Context, address, caller string, ttl time.Duration) (already bool, err error)
	// ResumeImport allows imports again and reports whether they were denied before.
	ResumeImport(ctx context.Context, address, caller string) (already bool, err error)
	// ImportMode reports whether the store is in import mode as a whole, as TiDB Lightning and br restore switch
	// it where they pause the whole cluster's scheduling. An import into some ranges only does not show, and a
	// TiKV that has no such call is not.
	ImportMode(ctx context.Context, address string) (bool, error)
}

// RegionMeta is what a store in recovery mode says about one of its peers. In TiKV 8.5 LastLogTerm is the
// hard state's term, CommitIndex is always 0, PeerID is the largest peer id of the region on any store,
// and tombstones are left out.
type RegionMeta struct {
	Region      cluster.RegionID
	PeerID      cluster.PeerID
	LastLogTerm uint64
	LastIndex   uint64
	CommitIndex uint64
	Version     uint64
	Tombstone   bool
	Keys        cluster.KeyRange
}

// Command is one line of a recovery plan for one store.
type Command struct {
	Region   cluster.RegionID
	AsLeader bool
}

// Recoverer is what resolving needs of a store in recovery mode.
type Recoverer interface {
	// RegionMetas streams the store's peers in region-id order to each, which must copy the keys if it keeps
	// them: they are valid until it returns. Outside recovery mode: Unready.
	RegionMetas(ctx context.Context, address string, each func(RegionMeta) error) error
	// Recover makes the store lead the regions marked AsLeader and returns when all of them lead and have
	// applied their log. TiKV answers only each 10 s and never gives up: give ctx a deadline.
	// Another Recover or RegionMetas on the store ends it with kind Conflict.
	Recover(ctx context.Context, address string, plan []Command) error
	// WaitApply returns when all peers of the store have applied their logs. TiKV has no time-out.
	WaitApply(ctx context.Context, address string, store cluster.StoreID) error
}

// Flashback is one region's share of a flashback. Keys are raw (decoded) and lie within the region.
type Flashback struct {
	Region  cluster.Region // with the leader that it is sent to
	Keys    cluster.RawRange
	Version cluster.TS // the backup ts
	StartTS cluster.TS
	// CommitTS must be above StartTS and above every commit ts in the region: a lower one kills TiKV.
	CommitTS cluster.TS
}

// RegionErrorKind is what a region error means for who sent the request.
type RegionErrorKind int

// Region errors, by what to do next.
const (
	RegionOther   RegionErrorKind = iota // try again later
	RegionStale                          // not leader, epoch, not found, key not in region: read PD again
	RegionBusy                           // the store is busy: slow down
	RegionUnready                        // this region alone cannot be served yet: try it again a little later
	// the flash call found no prepared state: done already, or prepare is missing
	RegionNotPrepared
	RegionInFlashback // prepared by some start_ts
)

// RegionError is a region_error of a response. It is never fatal by itself.
type RegionError struct {
	Region  cluster.RegionID
	Kind    RegionErrorKind
	Backoff time.Duration // that the store asks for, or 0
	Message string
}

// Error prints the region and TiKV's message.
func (e *RegionError) Error() string { return "region " + e.Region.String() + ": " + e.Message }

// Flashbacker sends flashback calls to the leaders. An error that is a *RegionError is to be retried.
type Flashbacker interface {
	// PrepareFlashback blocks the region for everything but the flashback with this StartTS. Idempotent.
	PrepareFlashback(ctx context.Context, address string, f Flashback) error
	// Flashback returns every key of the range to Version by writes at CommitTS. Idempotent for the same
	// StartTS and CommitTS; with another CommitTS a done region answers RegionNotPrepared.
	Flashback(ctx context.Context, address string, f Flashback) error
	// AnyLock asks the region's leader whether any key of it is locked, by whatever transaction and kind of lock. The
	// answer holds for all that is in the leader's log.
	AnyLock(ctx context.Context, address string, r cluster.Region) (bool, error)
	// Digest reads all rows of the region as they are at ts, from its leader. A row that is locked is a Conflict.
	Digest(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (Digest, error)
}
