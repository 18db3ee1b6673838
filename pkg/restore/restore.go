package restore

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// EBS is what a restore needs of EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
	ebs.Performance
	// AccountID is the 12-digit number of the account that calls go to.
	AccountID(ctx context.Context) (string, error)
}

// TiKV is what a restore needs of the stores.
type TiKV interface {
	resolve.TiKV
	tikv.Holder
}

// PD is what a restore needs of the target's placement driver.
type PD interface {
	resolve.PD
	pd.Tasks
}

// Deps are the systems around a restore. All are required but Sink and Log.
type Deps struct {
	Kube  kube.Restorer
	EBS   EBS
	TiKV  TiKV
	Store objstore.Store
	// OpenPD connects to the target's PD once it is up. The restore closes nothing: the opener's owner does.
	OpenPD func(ctx context.Context, addresses []string) (PD, error)
	Sink   phase.Sink
	Log    *zap.Logger
}

// Options are what the user chose.
type Options struct {
	Backup cluster.BackupID
	Target cluster.Name
	Run    cluster.RunID
	Owner  runlock.Owner
	Tool   string
	// Volume is the type, IOPS and throughput of the new volumes; empty fields keep the source's.
	Volume cluster.VolumeSpec
	// Zone puts all volumes there; empty keeps each volume's zone, or what Zones says of it.
	Zone  cluster.Zone
	Zones []ZonePair
	// KMSKey encrypts the volumes anew; empty keeps each snapshot's key.
	KMSKey string
	// KeepTags are tag keys of the snapshots that their volumes get too.
	KeepTags []string
	// InitializationMiB is the most MiB/s at which EC2 fills each volume, for money; 0 leaves it to the reads.
	InitializationMiB int64
	// FastRestore enables fast snapshot restore for the time in which the volumes are made.
	FastRestore bool
	// After is the type, IOPS and throughput that the volumes get once their data serve; the zero value changes nothing.
	After cluster.VolumeSpec
	// Account is the account that the restore has to be in; empty takes any.
	Account string
	// Kubernetes is the API server of the target, for the journal: gc compares it with its own.
	Kubernetes string
	// KeepOnFailure leaves what a failed run made for a person to look at.
	KeepOnFailure bool
	// Timeout bounds each wait for other systems (volumes, pods, stores); zero is 1 h.
	Timeout time.Duration
	// Visibility is how long EC2 may hide a volume that exists; zero is 30 s, longer than the 20 s that were seen.
	Visibility time.Duration
	// Now is the clock that EC2's times are compared with; nil is time.Now.
	Now func() time.Time
	// WaitApply waits for every store's log before the flashback begins; see resolve.Config.
	WaitApply bool
	// OnTasks is what to do about log backups and changefeeds of the target; empty is TasksReport.
	OnTasks OnTasks
	// TolerateStores are stores of the backup that the cluster is brought up without, if every region has a quorum
	// on the others. Resolve alone looks at it.
	TolerateStores []cluster.StoreID
	// BreakLock takes the target's lock from a run that is known to be dead. Resolve alone looks at it.
	BreakLock bool
}

// Result is what a run made and how long it took. It is filled in as far as the run came, also on error.
type Result struct {
	Manifest *manifest.Manifest
	Volumes  []Volume
	Timings  phase.Timings
	Started  time.Time
	Finished time.Time
	Resolve  resolve.Stats
	// DataBytes is the data in all snapshots, LargestBytes that of the fullest volume; 0 where EC2 does not tell.
	DataBytes, LargestBytes int64
	// Restored is true once the cluster serves and the run is over, whatever is Left.
	Restored bool
	// Account is the AWS account of the volumes.
	Account string
	// Left is what the run could not do or undo and a person has to see to.
	Left []string
	// Tasks are the log backups and changefeeds that read the restored cluster's changes.
	Tasks []pd.Task
	// Warnings are what a person has to look at though the run went on.
	Warnings []string
}

// task is one run under way.
type task struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	cancel  context.CancelCauseFunc

	manifest *manifest.Manifest
	resolved bool // the data are at the backup ts already: an earlier run was killed after that
	existing bool // the target was made by somebody else, for this restore
	volumes  []Volume
	created  createdVolumes
	asked    bool // volumes were asked for, so some may exist that no answer told of
	started  bool // TiKV was told to start, so pods may use the volumes
	fill     fill
	// fastBefore are enabled without us; fastMine by us, until we disabled them.
	fastBefore map[pair]bool
	fastMine   map[cluster.Zone][]cluster.SnapshotID
	fence      *runlock.Fence
	pd         PD
	resolver   *resolve.Resolver
	stores     []cluster.StoreID // of the backup, once PD lists exactly these
	result     Result
}

// Run restores the backup. The error's kind says what the caller can do.
func Run(ctx context.Context, deps Deps, opts Options) (*Result, error) {
	if opts.Timeout == 0 {
		opts.Timeout = time.Hour
	}
	if opts.Visibility == 0 {
		opts.Visibility = 30 * time.Second
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &task{
		Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store}, cancel: cancel,
		resolver: resolve.New(deps.TiKV, deps.Log), created: createdVolumes{},
		fence: runlock.NewFence(deps.Store, opts.Target, opts.Owner),
	}
	engine := phase.New(phase.Config{
		Fresh:   true,
		Run:     opts.Run,
		Journal: phase.NewStoreJournal(deps.Store, manifest.JournalPrefix(opts.Run)),
		Sink:    deps.Sink,
		Log:     deps.Log,
		About: journal.About{
			Operation: journal.Restore, Cluster: opts.Target, Backup: opts.Backup, Tool: opts.Tool,
			Kubernetes: opts.Kubernetes, Keep: opts.KeepOnFailure,
		},
	})
	t.result.Started = time.Now().UTC()
	err := engine.Run(ctx, t.fenced(t.steps()))
	if t.result.Restored = err == nil; err == nil {
		err = t.left()
	}
	t.result.Finished = time.Now().UTC()
	t.result.Timings = engine.Timings()
	t.result.Manifest, t.result.Volumes = t.manifest, t.volumes
	t.result.Resolve = t.resolver.Stats()
	return &t.result, err
}

// Plan is what a restore would do.
type Plan struct {
	Manifest *manifest.Manifest
	Volumes  []Volume
	Region   string
	Account  string
	// InitializationMiB is the rate of each volume, Waves in how many groups they go; 0 and 1 without one.
	InitializationMiB int64
	Waves             int
}

// MakePlan does the checks of a restore and nothing else, for a dry run.
func MakePlan(ctx context.Context, deps Deps, opts Options) (*Plan, error) {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	t := &task{
		Deps: deps, opts: opts, catalog: catalog.Catalog{Store: deps.Store},
		resolver: resolve.New(deps.TiKV, deps.Log), created: createdVolumes{},
	}
	engine := phase.New(phase.Config{Run: opts.Run, Sink: deps.Sink, Log: deps.Log, Journal: phase.NoJournal{}})
	if err := engine.Run(ctx, t.steps()[:2]); err != nil {
		return nil, err
	}
	return &Plan{
		Manifest: t.manifest, Volumes: t.volumes, Region: t.EBS.Region(), Account: t.result.Account,
		InitializationMiB: t.fill.rate, Waves: t.fill.waves(len(t.volumes)),
	}, nil
}
