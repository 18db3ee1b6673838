package tikv

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Lease is one prepare-snapshot stream to one store. It is not safe for concurrent use.
// The store keeps the lease until it expires even if the stream is lost; only Finish ends it early.
type Lease interface {
	// Renew sets the store's deadline to at least ttl from now (whole seconds) and reports whether the previous
	// deadline was still in the future: false after the first call means that the hold was broken.
	Renew(ctx context.Context, ttl time.Duration) (wasValid bool, err error)
	// WaitApply waits until each region has applied what its log had when the request arrived. The result has an
	// entry per failed region; retry just those with fresh epochs.
	WaitApply(ctx context.Context, regions []cluster.Region) (failed map[cluster.RegionID]error, err error)
	// Finish ends the lease and reports whether it was valid to the end. It closes the stream in any case.
	Finish(ctx context.Context) (wasValid bool, err error)
	// Close closes the stream but does not end the lease.
	Close()
}

// Holder is what a hold needs from a store. Addresses are as PD lists them.
type Holder interface {
	// OpenLease connects and opens the stream; the store is paused only by the first Renew.
	// A TiKV without the service is Unready, with a hint that names the versions that have it.
	OpenLease(ctx context.Context, address string) (Lease, error)
	// LedRegions lists the regions that the store leads according to itself, and those of them with a conf change or
	// merge in progress. Leader is not set: it is this store. TiKV reports a merge or split as pending only once its
	// first command is applied: WaitApply first.
	LedRegions(ctx context.Context, address string) (led []cluster.Region, pending []cluster.RegionID, err error)
	// FirstLock asks the region's leader for a lock whose transaction may commit at or below ts, and returns its start
	// ts, or 0 if there is none. Retry on a *RegionError.
	FirstLock(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (cluster.TS, error)
	// SuspendImport suspends imports for ttl and reports whether they already were.
	SuspendImport(ctx context.Context, address, caller string, ttl time.Duration) (already bool, err error)
	// ResumeImport allows imports again and reports whether they were suspended.
	ResumeImport(ctx context.Context, address, caller string) (already bool, err error)
	// ImportMode reports whether the whole store is in import mode, to which TiDB Lightning and br restore switch it
	// when they pause scheduling in the whole cluster. It is false for an import into some ranges only, and for a TiKV
	// without the call.
	ImportMode(ctx context.Context, address string) (bool, error)
}

// RegionMeta is what a store in recovery mode reports about one of its peers. In TiKV 8.5 LastLogTerm is the
// hard state's term, CommitIndex is always 0, PeerID is the largest peer id of the region on any store,
// and tombstones are omitted.
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

// Recoverer is what resolving needs from a store in recovery mode.
type Recoverer interface {
	// RegionMetas streams the store's peers to each, in order of region id. Keys are valid until each returns: copy
	// those that are kept. Unready outside recovery mode.
	RegionMetas(ctx context.Context, address string, each func(RegionMeta) error) error
	// Recover makes the store lead the regions marked AsLeader and returns once it leads all of them and has
	// applied their logs. TiKV checks only every 10 s and never gives up: give ctx a deadline.
	// Another Recover or RegionMetas on the store ends it with kind Conflict.
	Recover(ctx context.Context, address string, plan []Command) error
	// WaitApply returns once all peers of the store have applied their logs. TiKV has no timeout for it.
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

// RegionErrorKind is what a region error means to the caller.
type RegionErrorKind int

// Region errors, by what to do next.
const (
	RegionOther   RegionErrorKind = iota // try again later
	RegionStale                          // not leader, epoch, not found, key not in region: read PD again
	RegionBusy                           // the store is busy: slow down
	RegionUnready                        // only this region is not ready: try again a little later
	// Flashback found the region not prepared: it is already done, or was never prepared
	RegionNotPrepared
	RegionInFlashback // prepared by some start_ts
)

// RegionError is a region_error of a response. It is never fatal by itself.
type RegionError struct {
	Region  cluster.RegionID
	Kind    RegionErrorKind
	Backoff time.Duration // requested by the store, or 0
	Message string
}

// Error prints the region and TiKV's message.
func (e *RegionError) Error() string { return "region " + e.Region.String() + ": " + e.Message }

// Flashbacker sends flashback calls to the leaders. Retry on a *RegionError.
type Flashbacker interface {
	// PrepareFlashback blocks the region for everything but the flashback with this StartTS. Idempotent.
	PrepareFlashback(ctx context.Context, address string, f Flashback) error
	// Flashback reverts every key of the range to Version by writes at CommitTS. Idempotent for the same
	// StartTS and CommitTS; with another CommitTS a region that is done answers RegionNotPrepared.
	Flashback(ctx context.Context, address string, f Flashback) error
	// AnyLock asks the region's leader whether any key is locked, by any transaction and kind of lock. The answer
	// covers everything in the leader's log.
	AnyLock(ctx context.Context, address string, r cluster.Region) (bool, error)
	// Digest reads all rows of the region as of ts from its leader. A locked row is a Conflict.
	Digest(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (Digest, error)
}
