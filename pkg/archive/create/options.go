package create

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// Deps are an archive run's dependencies. All are required except Sink, Log, Remains and Helpers.
type Deps struct {
	Store      objstore.Store // with the backup; the journal goes there, too
	Repository *repository.Repository
	Blocks     Blocks
	EC2        ebs.Snapshots
	Region     string // of both
	Sink       phase.Sink
	Log        *zap.Logger
	Remains    *phase.Remains
	// Helpers work for a run with Options.Shared; nil if whoever joins was started by others.
	Helpers Helpers
}

// Helpers are processes that join, of which a run is in charge.
type Helpers interface {
	// Work starts those of an archive, or finds them, and follows them until ctx ends, or they have ended: with an
	// error if they could not work. It notes what changes.
	Work(ctx context.Context, archive string, note func(format string, args ...any)) error
}

// Blocks reads snapshots, and counts its calls.
type Blocks interface {
	ebsdirect.Source
	Stats() ebsdirect.Stats
}

// NoBase is the value of Options.Base that compares with no archive.
const NoBase = "none"

// Bounds of Options.Packers.
const (
	DefaultPackers = 2
	MaxPackers     = 64
)

// SkipFree is what is done about blocks that a volume's file system does not use.
type SkipFree string

// The values of SkipFree.
const (
	SkipAuto  SkipFree = "auto"  // they are not read, if the file system lists them without doubt
	SkipOff   SkipFree = "off"   // all blocks are read
	SkipAudit SkipFree = "audit" // all blocks are read, and those are counted that auto would leave out
)

// SkipFrees are all values, the default first.
func SkipFrees() []SkipFree { return []SkipFree{SkipAuto, SkipOff, SkipAudit} }

// Options are what the user chose.
type Options struct {
	Run     cluster.RunID
	Owner   runlock.Owner
	Tool    string
	Backup  cluster.BackupID
	Chosen  string       // the reference by which the user chose the backup; "" if it was named
	Cluster cluster.Name // of the backup
	// ClusterID is PD's id of it.
	ClusterID uint64
	// Base is the archive to compare with; "" is the newest one of the cluster, NoBase none.
	Base  string
	Level codec.Level
	// SkipFree is SkipAuto if it is "".
	SkipFree SkipFree
	// Packers is how many packs are filled at the same time; 0 is DefaultPackers.
	Packers  int
	LockWait time.Duration
	// Shared lets other processes join: see Join. With Lead, this one reads no block itself and waits for them.
	Shared, Lead bool
	// VerifyKey refuses a backup that it did not sign; nil takes any.
	VerifyKey *manifest.VerifyKey

	renewEvery time.Duration // of the lease; 0 is lease.RenewEvery
	lookEvery  time.Duration // at what others have done; 0 is lookEvery
}

// Validate returns a Usage error for options that cannot work.
func (o *Options) Validate() error {
	o.Packers, o.SkipFree = cmp.Or(o.Packers, DefaultPackers), cmp.Or(o.SkipFree, SkipAuto)
	if o.Packers < 1 || o.Packers > MaxPackers {
		return failure.New(failure.Usage, "create archive", string(o.Backup), "%d packers are not 1 to %d", o.Packers,
			MaxPackers)
	}
	if !slices.Contains(SkipFrees(), o.SkipFree) {
		return failure.New(failure.Usage, "create archive", string(o.Backup), "%q is no way to skip free blocks",
			o.SkipFree)
	}
	return nil
}

// Request returns what a process that resumes the run must have been asked for, too.
func (o *Options) Request(r *repository.Repository) map[string]string {
	skip := cmp.Or(o.SkipFree, SkipAuto)
	out := map[string]string{"repo": r.ID().String(), "base": o.Base, "skipFree": string(skip)}
	if o.Shared { // its segments are not in the journal
		out["shared"] = "true"
	}
	return out
}

// About describes the run.
func (o *Options) About(r *repository.Repository) journal.About {
	return journal.About{
		Operation: journal.Archive, Cluster: o.Cluster, Backup: o.Backup, Chosen: o.Chosen, ClusterID: o.ClusterID,
		Request: o.Request(r),
	}
}
