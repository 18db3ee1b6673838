package runlock

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Owner identifies a lock's holder to users who find it held.
type Owner struct {
	Run     cluster.RunID `json:"run"`
	Host    string        `json:"host"`
	PID     int           `json:"pid"`
	Command string        `json:"command"` // "backup", "restore"; no arguments, as these may hold names of files
	// Backup is the one that a lease keeps from being deleted (journal.UseLock); "" of a lock.
	Backup cluster.BackupID `json:"backup,omitempty"`
}

// NewOwner returns the Owner for this process.
func NewOwner(run cluster.RunID, command string) Owner {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return Owner{Run: run, Host: host, PID: os.Getpid(), Command: command}
}

// String returns "run R (backup, pid 7 on host H)".
func (o Owner) String() string {
	return fmt.Sprintf("run %s (%s, pid %d on host %s)", o.Run, o.Command, o.PID, o.Host)
}

// Record is the lock's object.
type Record struct {
	Cluster    cluster.Name `json:"cluster"`
	Owner      Owner        `json:"owner"`
	Epoch      int64        `json:"epoch"` // grows by one with each owner, from 1
	AcquiredAt time.Time    `json:"acquiredAt"`
	RenewedAt  time.Time    `json:"renewedAt"`
	ExpiresAt  time.Time    `json:"expiresAt"`
	Renewals   int64        `json:"renewals"`
	Released   bool         `json:"released,omitempty"`
	// ReleasedAt is when a user released what earlier runs held; the next owner's record lacks it.
	ReleasedAt time.Time `json:"letGoAt,omitzero"`
	// RenewSeconds is the owner's renewal interval; 0 if not recorded.
	RenewSeconds float64 `json:"renewSeconds,omitempty"`
	// Nonce is random per owner: two contenders never write the same bytes, which distinguishes a lost answer from a
	// lost race.
	Nonce string `json:"nonce"`
}

// maxSkew bounds the wait beyond an expiry: instances with chrony or Amazon Time Sync stay far below it.
const maxSkew = 30 * time.Second

// FreeAt returns when others may take the lock: its expiry plus an allowance for clock skew. It is the zero time for a
// released lock.
func (r *Record) FreeAt() time.Time {
	if r.Released {
		return time.Time{}
	}
	return r.ExpiresAt.Add(min(r.ExpiresAt.Sub(r.RenewedAt)/4, maxSkew))
}

// Held reports whether the lock excludes others at that time. A renewed lock does until it is released or was watched,
// because its expiry is by another machine's clock. An older version's lock, without a renewal interval, expires by
// wall clock.
func (r *Record) Held(now time.Time) bool {
	return !r.Released && (r.RenewSeconds > 0 || r.Unexpired(now))
}

// Unexpired reports whether the lease is unexpired by wall clock, which may be skewed: for display only.
func (r *Record) Unexpired(now time.Time) bool { return !r.Released && now.Before(r.FreeAt()) }

// heldUntil describes until when a lock excludes others, as far as known.
func (r *Record) heldUntil() string {
	if r.RenewSeconds > 0 {
		return "renewed last at " + r.RenewedAt.UTC().Format(time.RFC3339)
	}
	return "until " + r.FreeAt().UTC().Format(time.RFC3339)
}

// freeAfter returns the remedy for a dead owner's lock.
func (r *Record) freeAfter(now time.Time) string {
	if r.RenewSeconds > 0 {
		return "run again with --lock-wait " + DefaultWait.String() +
			": it takes over the lock unless it is renewed meanwhile"
	}
	return fmt.Sprintf("for %s until its lock expires", max(r.FreeAt().Sub(now), 0).Round(time.Second))
}

// Watching describes a lock that is being watched to find out whether its owner is dead.
func (r *Record) Watching() string {
	return fmt.Sprintf("the lock is held by %s, last renewed at %s: its owner counts as dead if it does not renew it "+
		"within %s from now",
		r.Owner, r.RenewedAt.UTC().Format(time.RFC3339), (watchedRenewals * r.RenewInterval()).Round(time.Second))
}

// Read returns a cluster's lock as stored, and its version. It is NotFound if the lock was never taken.
func Read(ctx context.Context, store objstore.Store, name cluster.Name) (*Record, objstore.Version, error) {
	body, version, err := store.Get(ctx, manifest.LockKey(name))
	if err != nil {
		return nil, "", failure.Annotate(err, "read lock", name.String())
	}
	r := new(Record)
	if err := json.Unmarshal(body, r); err != nil {
		return nil, "", unreadable(store, name, err)
	}
	if r.Epoch < 1 || r.Nonce == "" {
		return nil, "", unreadable(store, name, fmt.Errorf("no epoch or nonce in it"))
	}
	return r, version, nil
}

// Break releases the lock of an owner known to be dead, whoever it is. If the owner is alive after all, it loses the
// lock at its next renewal. Break returns a Conflict if the lock's epoch has changed since it was read, and succeeds if
// the lock is already released.
func Break(ctx context.Context, store objstore.Store, name cluster.Name, epoch int64) error {
	r, version, err := Read(ctx, store, name)
	if err != nil {
		return err
	}
	if r.Epoch != epoch {
		return failure.New(failure.Conflict, "break lock", name.String(), "it is now of %s, epoch %d", r.Owner, r.Epoch)
	}
	if r.Released {
		return nil
	}
	r.Released = true
	_, err = write(ctx, store, r, version)
	return failure.Annotate(err, "break lock", name.String())
}

// NoteReleased records in the lock that the cluster was released, for readers of the storage alone. It does nothing for
// a cluster without a lock, or whose lock a run has since taken.
func NoteReleased(ctx context.Context, store objstore.Store, name cluster.Name, at time.Time) error {
	r, version, err := Read(ctx, store, name)
	if err == nil && r.Released {
		r.ReleasedAt = at.UTC()
		_, err = write(ctx, store, r, version)
	}
	if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Conflict) {
		return nil
	}
	return failure.Annotate(err, "note release", name.String())
}

// write creates the object (no old version) or replaces it. After a lost answer it succeeds if exactly these bytes are
// stored.
func write(ctx context.Context, store objstore.Store, r *Record, old objstore.Version) (objstore.Version, error) {
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", failure.Wrap(err, failure.Unknown, "write lock", r.Cluster.String())
	}
	key := manifest.LockKey(r.Cluster)
	var version objstore.Version
	if old == "" {
		version, err = store.Create(ctx, key, body)
	} else {
		version, err = store.Replace(ctx, key, body, old)
	}
	if err == nil {
		return version, nil
	}
	stored, current, readErr := store.Get(ctx, key)
	if readErr == nil && string(stored) == string(body) {
		return current, nil
	}
	return "", err
}

func unreadable(store objstore.Store, name cluster.Name, err error) error {
	wrapped := &failure.Error{Op: "read lock", Target: name.String(), Kind: failure.Corrupt, Err: err}
	return wrapped.WithHint("make sure that no run is alive, then delete %s in %s", manifest.LockKey(name), store.URL())
}
