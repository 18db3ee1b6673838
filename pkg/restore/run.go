package restore

import (
	"context"
	"fmt"
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
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runner"
)

// run is one restore, or one resolve, under way.
type run struct {
	Deps
	opts    Options
	catalog catalog.Catalog
	runner  *runner.Runner

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
	instance       string // of a target that somebody else made: the value of its instance label
	volumes        *volumes.Maker
	created        volumes.Created
	fast           *volumes.Fast
	bound          bool // claims of a target that is kept are bound to the volumes
	started        bool // TiKV may start, so pods may use the volumes
	tikvMayRun     bool // an earlier process of the run may have started TiKV
	leftRecovery   bool // the target has left recovery mode before this process began
	leaving        bool // it has, or may have, by this process
	earlier        earlier
	keepAfterUndo  bool // what the user chose, while the rest of a run is undone all the same
	given          journal.GivenTarget
	pd             PD
	resolver       *resolve.Resolver
	// stores are those of the backup, and marks what may be used of its marks, once PD lists exactly these stores: up says so.
	stores []cluster.StoreID
	marks  *marks.Set
	up     atomic.Bool
	// times are how long a store's volumes, pod, process and regions took; starting is
	// when TiKV was let start.
	times    *phase.StoreTimes
	starting time.Time
	result   Result
}

// newRun makes a run that has done nothing yet. All that this package does begins with one.
func newRun(deps Deps, opts Options) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	r := &run{
		Deps: deps, opts: opts.withDefaults(), runner: newRunner(deps, opts),
		catalog:  catalog.Catalog{Store: objstore.AskFirst(deps.Store), VerifyKey: opts.VerifyKey},
		resolver: resolve.New(deps.TiKV, deps.Log),
		times:    new(phase.StoreTimes),
	}
	r.volumes, r.fast = r.newVolumes()
	return r
}

func newRunner(deps Deps, opts Options) *runner.Runner {
	return runner.New(runner.Config{
		Operation: "restore", Run: opts.Run, Cluster: opts.Target, Owner: opts.Owner, Tool: opts.Tool,
		Store: deps.Store, Sink: deps.Sink, Log: deps.Log, Remains: deps.Remains,
		Unfinished: fmt.Sprintf("run %s on cluster %s is not finished: the same command continues it", opts.Run, opts.Target),
		LockWait:   opts.LockWait, AliveWait: opts.AliveWait,
	})
}

// execute carries the steps out under a journal that begins with about, and completes the result. With resume it
// continues a run whose process died.
func (r *run) execute(ctx context.Context, about journal.About, steps []phase.Step, resume *runner.Resumption) error {
	about.Backup = r.opts.Backup
	if r.EBS != nil { // of the data alone nothing is made in EC2
		about.Region = r.EBS.Region()
	}
	var err error
	r.result.Outcome, err = r.runner.Execute(ctx, runner.Book{
		About: func() journal.About { return about }, Steps: steps, Resume: resume, Times: r.times, Serial: r.opts.Serial,
	})
	planned := r.volumes.Plan()
	r.result.Manifest, r.result.Volumes = r.manifest, planned.Volumes
	r.result.DataBytes, r.result.LargestBytes = planned.DataBytes, planned.LargestBytes
	r.result.Resolve, r.result.Regions = r.resolver.Stats(), r.regionsDone()
	r.result.Stores = r.times.Stores(r.pods())
	return err
}
