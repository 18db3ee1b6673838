package restore

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/storage"
)

// run is one restore, or one resolve, under way.
type run struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	cancel  context.CancelCauseFunc

	storage       *storage.Storage
	storageID     string // that the run's volumes are tagged with; "" in a run that an older version began
	kubernetesUID string // of the target's Kubernetes cluster; "" if it is not known
	manifest      *manifest.Manifest
	// serves says that every region has a leader, or that TiDB answers: what fails from then on deletes nothing. Two steps
	// that run side by side set it. leadersReady is the first of the two: only then is the cluster restored.
	leadersReady bool
	serves       atomic.Bool
	resolved     bool // the data are at the backup ts already: an earlier run was killed after that
	existing     bool // the target was made by somebody else, for this restore
	// multiCluster says that other runs restore the cluster's stores elsewhere, which are in other Kubernetes clusters.
	multiCluster bool
	elsewhere    []cluster.StoreID
	// externalBinder: somebody else binds the volumes, so the names of their PVs and claims are not known.
	externalBinder bool
	instance       string   // of a target that somebody else made: the value of its instance label
	dropped        []string // settings of the source's services that the target does not get
	volumes        []Volume
	created        createdVolumes
	asked          bool // volumes were asked for, so some may exist that no answer named
	replaced       int  // volumes that were lost and asked for again
	bound          bool // claims of a target that is kept are bound to the volumes
	started        bool // TiKV may start, so pods may use the volumes
	// resumed says that an earlier process of the run died, tikvMayRun that it may have started TiKV.
	resumed, tikvMayRun bool
	leftRecovery        bool // the target has left recovery mode before this process began
	leaving             bool // it has, or may have, by this process
	earlier             earlier
	keepAfterUndo       bool // what the user chose, while the rest of a run is undone all the same
	given               journal.GivenTarget
	made                map[cluster.SnapshotID]cluster.VolumeID // by an earlier process, as their tags say
	fill                fill
	// fastBefore are enabled without us; fastMine by us, until we disabled them.
	fastBefore map[pair]bool
	fastMine   map[cluster.Zone][]cluster.SnapshotID
	fence      *runlock.Fence
	waited     bool // for the lock of another run
	pd         PD
	resolver   *resolve.Resolver
	// stores are those of the backup, and marks what may be used of its marks, once PD lists exactly these stores: up says so.
	stores []cluster.StoreID
	marks  *marks.Set
	up     atomic.Bool
	// times are how long a store's volumes, pod, process and regions took; asking is when the first volume was asked for,
	// starting when TiKV was let start.
	times            *phase.StoreTimes
	asking, starting time.Time
	result           Result
}

// newRun makes a run that has done nothing yet. All that this package does begins with one.
func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	return &run{
		Deps: deps, opts: opts.withDefaults(), catalog: catalog.Catalog{Store: objstore.AskFirst(deps.Store), VerifyKey: opts.VerifyKey}, cancel: func(error) {},
		resolver: resolve.New(deps.TiKV, deps.Log), created: createdVolumes{},
		times: new(phase.StoreTimes),
		fence: runlock.NewFence(deps.Store, opts.Target, opts.Owner),
	}
}

// execute carries the steps out under a journal that begins with about, and completes the result. With resume it
// continues a run whose process died.
func (r *run) execute(ctx context.Context, about journal.About, steps []phase.Step, resume *phase.Resume) error {
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	if err := r.openStorage(ctx); err != nil {
		return err
	}
	about.Cluster, about.Backup, about.Tool = r.opts.Target, r.opts.Backup, r.opts.Tool
	if r.EBS != nil { // of the data alone nothing is made in EC2
		about.Region = r.EBS.Region()
	}
	engine := phase.New(phase.Config{
		Fresh:   true,
		Resume:  resume,
		Fence:   r.fence,
		Run:     r.opts.Run,
		Journal: journal.NewStoreJournal(r.Store, manifest.JournalPrefix(r.opts.Run)),
		Sink:    r.Sink,
		Log:     r.Log,
		Begin:   func(ctx context.Context) (any, error) { return r.begin(ctx, about) },
		// A restore of hours survives an outage of object storage for as long as its lock does.
		JournalPatience: lockTTL,
		Times:           r.times,
		Serial:          r.opts.Serial,
	})
	r.result.Started = time.Now().UTC()
	err := engine.Run(ctx, steps)
	r.result.Finished = time.Now().UTC()
	r.result.Timings, r.result.Before, r.result.LostLock = engine.Timings(), engine.Before(), r.lostLock(ctx, err)
	r.result.Manifest, r.result.Volumes = r.manifest, r.volumes
	r.result.Resolve, r.result.Regions = r.resolver.Stats(), r.regionsDone()
	r.result.Stores = r.times.Stores(r.pods())
	return err
}

// lockAnswer bounds the last look at the lock.
const lockAnswer = 5 * time.Second

// lostLock finds out whether a run that failed has lost its lock.
func (r *run) lostLock(ctx context.Context, err error) bool {
	if err == nil || r.fence.Epoch() == 0 {
		return r.fence.Loss() != nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockAnswer)
	defer cancel()
	return r.fence.Confirm(ctx) != nil
}

// check carries out steps that change nothing. No journal is written.
func (r *run) check(ctx context.Context, steps []phase.Step) error {
	return phase.New(phase.Config{Run: r.opts.Run, Sink: r.Sink, Log: r.Log, Journal: phase.NoJournal{}}).Run(ctx, steps)
}
