package importer

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/codec"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Deps are an import's dependencies. Sink and Log are optional, and Stdin is of a source Stdin alone.
type Deps struct {
	Repository *repository.Repository
	Stdin      io.Reader
	Sink       phase.Sink
	Log        *zap.Logger
}

// Stdin is the path of standard input.
const Stdin = "-"

// NoBase is the value of Options.Base that compares with no archive.
const NoBase = "none"

// Source is a volume to archive, and what it is called in the archive.
type Source struct {
	Store cluster.StoreID `json:"store"`
	Role  cluster.Role    `json:"role"`
	Path  string          `json:"path"` // of a file or block device, or Stdin
}

// String is "STORE/ROLE".
func (s Source) String() string { return fmt.Sprintf("%s/%s", s.Store, s.Role) }

// Options are what the user chose.
type Options struct {
	Name    string
	Run     cluster.RunID // of this process
	Sources []Source
	// Base is the archive to compare with; "" is the newest import of the name, NoBase none.
	Base  string
	Level codec.Level
	// SkipFree does not read what the file system of a file or device does not use, and AuditFree counts that.
	SkipFree, AuditFree bool
	// StdinSize is how many bytes standard input must have; 0 takes any number.
	StdinSize int64
	// Rate bounds how many bytes are read per second; 0 does not.
	Rate     float64
	LockWait time.Duration // as runlock.Notify has it

	renewEvery time.Duration // of the lease; 0 is lease.RenewEvery
}

var (
	names = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	roles = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
)

// Validate returns a Usage error for options that cannot work.
func (o *Options) Validate() error {
	if !names.MatchString(o.Name) {
		return o.unusable("a name is 1 to 100 letters, digits, '.', '_' or '-'")
	}
	if o.Name == repository.Latest {
		return o.unusable("as a name of archives it means the newest one of all")
	}
	if len(o.Sources) == 0 || len(o.Sources) > maxSources {
		return o.unusable("%d sources are not 1 to %d", len(o.Sources), maxSources)
	}
	stdin := false
	for i, s := range o.Sources {
		before := o.Sources[:i]
		switch {
		case !roles.MatchString(string(s.Role)):
			return o.unusable("the role of %s is not letters, digits, '.', '_' and '-'", s)
		case slices.ContainsFunc(before, func(b Source) bool { return b.Store == s.Store && b.Role == s.Role }):
			return o.unusable("%s is named twice", s)
		case slices.ContainsFunc(before, func(b Source) bool { return b.Path == s.Path }):
			return o.unusable("%s is named twice", s.Path)
		}
		stdin = stdin || s.Path == Stdin
	}
	if o.StdinSize != 0 && !stdin {
		return o.unusable("no source is standard input, whose size is given")
	}
	return nil
}

// maxSources bounds the volumes of an archive: the source of each pack has all of them.
const maxSources = 256

func (o *Options) unusable(format string, args ...any) error {
	return failure.New(failure.Usage, "import", o.Name, format, args...)
}

// Volume is what was done for one volume.
type Volume struct {
	Source
	Size int64 // 0 while it is unknown
	// Compared reports whether it was compared with the base.
	Compared bool
	// FreeUnknown is why no block is taken for free, as a clause; "" if its file system lists which are, or is not
	// asked.
	FreeUnknown string
	volume.Stats
	Seconds float64
}

// Result is what a run archived and how long it took, as far as it got, also on error.
type Result struct {
	Archive           string // its id; "" before it was chosen
	Base              string // that it was compared with
	Continued         bool   // an earlier process has begun it
	Committed         bool
	Volumes           []Volume // that are done
	Packs             int64    // that this process stored
	StoredBytes       int64    // in these
	Timings           phase.Timings
	Started, Finished time.Time
}

// Run archives the sources. After an error, or if the process dies, nothing is listed, and a call with the same name,
// sources and base continues. While another process imports by the name it is a Conflict.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	if err := opts.Validate(); err != nil {
		return &Result{}, err
	}
	r := newRun(deps, opts)
	err := r.execute(ctx)
	return &r.result, err
}

// Estimate returns what a run would read, and changes nothing. Its Stats have Read and Free alone; nothing is read of
// standard input.
func Estimate(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	r := newRun(deps, opts)
	err := r.estimate(ctx)
	return &r.result, err
}
