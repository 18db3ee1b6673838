package restore

import (
	"context"
	"encoding/json"
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
	"github.com/tisnap/tisnap/pkg/restore/filled"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
	"github.com/tisnap/tisnap/pkg/runner"
)

// run is one restore or resolve in progress.
type run struct {
	Deps
	opts   Options
	runner *runner.Runner

	backup   source
	target   target
	pd       placement
	making   making
	arrival  *arrival
	resolver *resolve.Resolver
	data     *dataState
	earlier  earlier
	result   Result
}

// source is the backup to restore.
type source struct {
	*manifest.Manifest
	objects json.RawMessage // of its cluster, which the target's are made from
	// elsewhere are the cluster's stores in other Kubernetes clusters; multiCluster means that other runs restore them.
	elsewhere    []cluster.StoreID
	multiCluster bool
}

// with returns the backup with another manifest, of the same cluster.
func (b source) with(m *manifest.Manifest) source {
	b.Manifest = m
	return b
}

// making is how the volumes are made. Its methods are bound to the run's field, which a run that starts over replaces.
type making struct {
	*volumes.Maker
	fast      *volumes.Fast
	created   volumes.Created
	snapshots *fromarchive.Maker // nil if there are some already, or none are made
	made      fromarchive.Made
	filler    *filled.Maker // nil if EC2 makes the volumes
	filled    filled.Made
}

// arrival is which stores have come.
type arrival struct {
	// stores are the backup's, and marks its usable marks, once PD lists exactly these stores, which sets up.
	stores []cluster.StoreID
	marks  *marks.Set
	up     atomic.Bool
	// times are how long each store's volumes, pod, process and regions took; starting is when TiKV was allowed to
	// start.
	times    *phase.StoreTimes
	starting time.Time
}

// newArrival returns one at which no store has come.
func newArrival(times *phase.StoreTimes) *arrival { return &arrival{times: times} }

// dataState is the state of the target's data.
type dataState struct {
	resolved bool // already at the backup ts: an earlier run was killed after that
	// serves means that every region has a leader, or that TiDB answers: from then on a failure deletes nothing. Two
	// concurrent steps set it. leadersReady means that every region has a leader: only then is the cluster restored.
	leadersReady bool
	serves       atomic.Bool
}

// found sets whether the data is at the backup ts, by what an earlier run or process left.
func (d *dataState) found(resolved bool) { d.resolved = resolved }

// haveLeaders notes that every region has a leader.
func (d *dataState) haveLeaders() { d.leadersReady = true }

// mayServe notes that the cluster may be in use, and reports whether that is new.
func (d *dataState) mayServe() (first bool) { return !d.serves.Swap(true) }

// creator is who creates the target.
type creator int

// The creators.
const (
	byRun    creator = iota // a restore, unless the target exists
	byOthers                // for a resolve
	byBR                    // for br, which knows it by its PD, as a part of a cluster in several Kubernetes clusters
)

// newRun makes a run, with which everything in this package begins.
func newRun(deps Deps, opts Options, by creator) *run {
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	r := &run{
		backup: source{multiCluster: by == byBR},
		Deps:   deps, opts: opts.withDefaults(), runner: newRunner(deps, opts),
		resolver: resolve.New(deps.TiKV, deps.Log),
		arrival:  newArrival(new(phase.StoreTimes)), data: new(dataState),
	}
	r.target, r.pd = newTarget(&r.Deps, r.opts, "", by != byRun), newPlacement(&r.Deps, r.opts.Target)
	r.making = r.newMaking()
	return r
}

// catalog returns the backup's catalog.
func (r *run) catalog() catalog.Catalog {
	return catalog.Catalog{Store: objstore.AskFirst(r.Store), VerifyKey: r.opts.VerifyKey}
}

func newRunner(deps Deps, opts Options) *runner.Runner {
	return runner.New(runner.Config{
		Operation: "restore", Run: opts.Run, Cluster: opts.Target, Owner: opts.Owner, Tool: opts.Tool,
		Store: deps.Store, Sink: deps.Sink, Log: deps.Log, Remains: deps.Remains,
		Unfinished: fmt.Sprintf("run %s on cluster %s is not finished: the same command continues it", opts.Run,
			opts.Target),
		LockWait: opts.LockWait, AliveWait: opts.AliveWait,
	})
}

// execute runs the steps under a journal that begins with about, and completes the result. With resume it resumes a run
// whose process died.
func (r *run) execute(ctx context.Context, about journal.About, steps []phase.Step, resume *runner.Resumption) error {
	about.Backup = r.opts.Backup
	if r.EBS != nil { // a resolve makes nothing in EC2
		about.Region = r.EBS.Region()
	}
	outcome, err := r.runner.Execute(ctx, runner.Book{
		About: func() journal.About { return about }, Steps: steps, Resume: resume, Times: r.arrival.times,
		Serial: r.opts.Serial,
	})
	r.result = r.report(outcome)
	return err
}
