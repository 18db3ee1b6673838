package drill

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/cage"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tidb"
)

// Cages are the namespaces of drills. cage.Cages implements it.
type Cages interface {
	Make(ctx context.Context, spec cage.Spec) (cage.Cage, error)
	List(ctx context.Context) ([]cage.Cage, error)
	Remove(ctx context.Context, c cage.Cage) error
	// RemoveProbes removes the pods by which a run proved its cage from another namespace.
	RemoveProbes(ctx context.Context, run cluster.RunID, namespace string) error
}

// EBS is EC2 where the volumes are made.
type EBS interface {
	FindVolumes(ctx context.Context, tags ebs.Tags) ([]ebs.Volume, error)
	AllVolumes(ctx context.Context) ([]ebs.Volume, error)
	DeleteVolume(ctx context.Context, id cluster.VolumeID) error
	Region() string
}

// Database is the restored cluster's SQL port.
type Database interface {
	tidb.Database
	// Rest stops what TiDB does by itself, as far as the user may.
	Rest(ctx context.Context) error
	Close()
}

// Deps are a drill's dependencies. All are required except Sink, Log, Remains and HoldGC; Clean needs none of the
// functions.
type Deps struct {
	Store  objstore.Store
	Kube   kube.Caged
	Cages  Cages
	Probes cage.Prober
	EBS    EBS
	// Plan makes the checks of a restore to this target, whose namespace does not exist yet. It changes nothing.
	Plan func(ctx context.Context, target cluster.Name) (Planned, error)
	// Restore restores the backup by a run of this id, which has a journal of its own, and puts tags on its volumes. If
	// it fails it undoes what it made, as far as it can.
	Restore func(ctx context.Context, to Target) (Restored, error)
	// HoldGC keeps the versions of the backup ts, or those since then that GC has left, in the restored cluster for
	// some time.
	HoldGC func(ctx context.Context, target cluster.Name, run cluster.RunID, ttl time.Duration) error
	// Open connects to the restored cluster's SQL port.
	Open    func(ctx context.Context, target cluster.Name) (Database, error)
	Sink    phase.Sink
	Log     *zap.Logger
	Remains *phase.Remains
}

// Planned is what a restore is going to make.
type Planned struct {
	Stores, Volumes int
	StorageGiB      int64 // of all volumes
}

// Target is the cluster to restore.
type Target struct {
	Run     cluster.RunID
	Cluster cluster.Name
	Tags    ebs.Tags
}

// Restored is what a restore has made.
type Restored struct {
	// Serves is true if the cluster serves the backup's data, also with an error.
	Serves   bool
	Warnings []string
}

// Options are what the user chose.
type Options struct {
	Run       cluster.RunID
	Owner     runlock.Owner
	Tool      string
	Backup    cluster.BackupID
	Cluster   cluster.Name // that the backup is of
	ClusterID uint64       // PD's id of it
	Checks    checks.Options
	// ChecksDigest identifies the user's statements in the journal; "" without any.
	ChecksDigest string
	// From are the namespaces whose pods may connect to those in the cage, and Outside is one whose pods must not.
	From    []string
	Outside string
	// Lifetime is how long the cage may exist: after that anyone may remove it.
	Lifetime time.Duration
	// RestoreWithin bounds the restore, TearDownWithin the removal.
	RestoreWithin, TearDownWithin time.Duration
	// Visibility is how long EC2 may hide a volume that exists; zero is ebs.VisibleWithin.
	Visibility time.Duration
	// Poll is how often EC2 is asked about volumes; zero is 2 s.
	Poll     time.Duration
	LockWait time.Duration
	Chosen   string // the reference by which the user chose the backup; "" if it was named
}

// The defaults.
const (
	DefaultLifetime = 24 * time.Hour
	DefaultRestore  = 12 * time.Hour
	DefaultTearDown = 30 * time.Minute
	defaultPoll     = 2 * time.Second
)

// Validate fills in the defaults, and returns a Usage error for options that cannot work. A drill that checks nothing
// is one.
func (o *Options) Validate() error {
	o.defaults()
	switch c := o.Checks; {
	case len(c.Statements)+len(c.Sums)+c.Tables == 0 && !c.AllTables:
		return failure.New(failure.Usage, "drill", string(o.Backup),
			"no check was asked for, which would prove nothing").
			WithHint("give --tables, --canary or --sql")
	case c.Budget <= 0 || c.Each <= 0:
		return failure.New(failure.Usage, "drill", string(o.Backup), "want a positive time for the checks")
	case o.RestoreWithin+c.Budget >= o.Lifetime:
		return failure.New(failure.Usage, "drill", string(o.Backup),
			"its cage would expire after %s, and the restore and its checks may take %s", o.Lifetime,
			o.RestoreWithin+c.Budget).WithHint("choose a longer --lifetime")
	}
	return nil
}

func (o *Options) defaults() {
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	o.RestoreWithin = cmp.Or(o.RestoreWithin, DefaultRestore)
	o.TearDownWithin = cmp.Or(o.TearDownWithin, DefaultTearDown)
	o.Visibility, o.Poll = cmp.Or(o.Visibility, ebs.VisibleWithin), cmp.Or(o.Poll, defaultPoll)
}

// About describes the run. Kubernetes has to answer for it: a drill is torn down nowhere else.
func (o *Options) About(ctx context.Context, d *Deps) (journal.About, error) {
	uid, err := d.Kube.ClusterUID(ctx)
	if err != nil {
		return journal.About{}, failure.Annotate(err, "ask Kubernetes which cluster it is", d.Kube.Server())
	}
	return journal.About{
		Operation: journal.Drill, Cluster: o.Cluster, Backup: o.Backup, ClusterID: o.ClusterID,
		Region: d.EBS.Region(), Kubernetes: d.Kube.Server(), KubernetesUID: uid, Chosen: o.Chosen,
		Request: o.request(),
	}, nil
}
