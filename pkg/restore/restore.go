package restore

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The phases that a user sees timed, by the names of the published tables.
const (
	phaseCluster = "create cluster"
	phaseVolumes = "restore volumes"
	phaseTiKV    = "start TiKV"
	phaseData    = "resolve data"
	phaseTiDB    = "start TiDB"
)

// Kube is what a restore needs of Kubernetes.
type Kube interface {
	kube.Clusters
	kube.Restorer
}

// EBS is what a restore needs of EC2.
type EBS interface {
	ebs.Snapshots
	ebs.Volumes
	ebs.Account
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
	Kube  Kube
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
	Volume ebs.VolumeSpec
	// Zone puts all volumes there; empty keeps each volume's zone.
	Zone cluster.Zone
	// KeepOnFailure leaves what a failed run made for a person to look at.
	KeepOnFailure bool
	// Timeout bounds each wait for other systems (volumes, pods, stores); zero is 1 h.
	Timeout time.Duration
	// Visibility is how long EC2 may hide a volume that exists; zero is 30 s, longer than the 20 s that were seen.
	Visibility time.Duration
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
	lock     *runlock.Kept
	pd       PD
	resolver *resolve.Resolver
	stores   []cluster.StoreID // of the backup, once PD lists exactly these
	result   Result
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
	}
	engine := phase.New(phase.Config{
		Fresh:   true,
		Run:     opts.Run,
		Journal: phase.NewStoreJournal(deps.Store, manifest.JournalPrefix(opts.Run)),
		Sink:    deps.Sink,
		Log:     deps.Log,
		About:   about{Operation: "restore", Cluster: opts.Target, Backup: opts.Backup, Tool: opts.Tool},
	})
	t.result.Started = time.Now().UTC()
	err := engine.Run(ctx, t.steps())
	t.result.Finished = time.Now().UTC()
	t.result.Timings = engine.Timings()
	t.result.Manifest, t.result.Volumes = t.manifest, t.volumes
	t.result.Resolve = t.resolver.Stats()
	return &t.result, err
}

// about is the journal's first record.
type about struct {
	Operation string           `json:"operation"`
	Cluster   cluster.Name     `json:"cluster"`
	Backup    cluster.BackupID `json:"backup"`
	Tool      string           `json:"tool"`
}

// steps is the runbook.
func (t *task) steps() []phase.Step {
	wait := t.opts.Timeout
	steps := []phase.Step{
		{Phase: phaseCluster, Name: "load", Deadline: 5 * time.Minute, Do: t.load, ReadOnly: true},
		{Phase: phaseCluster, Name: "preflight", Deadline: 5 * time.Minute, Do: t.preflight, ReadOnly: true},
		{Phase: phaseCluster, Name: "lock", Deadline: time.Minute, Do: t.takeLock, Undo: t.dropLock},
		{Phase: phaseCluster, Name: "create-cluster", Deadline: 5 * time.Minute, Do: t.createCluster, Undo: t.deleteCluster, UndoFirst: true},
		{Phase: phaseCluster, Name: "await-pd", Deadline: wait, Do: t.awaitPD},
		{Phase: phaseCluster, Name: "mark-recovering", Deadline: 5 * time.Minute, Do: t.markRecovering, Retry: true},

		{
			Phase: phaseVolumes, Name: "create-volumes", Deadline: wait, Do: t.createVolumes,
			Undo: t.deleteVolumes, UndoDeadline: wait, State: &t.created,
		},
		{Phase: phaseVolumes, Name: "await-volumes", Deadline: wait, Do: t.awaitVolumes},
		{Phase: phaseVolumes, Name: "bind-volumes", Deadline: 10 * time.Minute, Do: t.bindVolumes, Retry: true},

		{Phase: phaseTiKV, Name: "start-tikv", Deadline: 5 * time.Minute, Do: t.startTiKV, Retry: true},
		{Phase: phaseTiKV, Name: "await-stores", Deadline: wait, Do: t.awaitStores},
		{Phase: phaseData, Name: "check-tasks", Deadline: 5 * time.Minute, Do: t.checkTasks, Retry: true},
	}
	steps = append(steps, t.resolver.Steps(phaseData)...)
	return append(steps,
		phase.Step{Phase: phaseTiDB, Name: "check-tasks-again", Deadline: 5 * time.Minute, Do: t.checkTasksAgain, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "leave-recovery", Deadline: 10 * time.Minute, Do: t.leaveRecovery, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "await-restart", Deadline: wait, Do: t.awaitRestart},
		// From here on the data serve: what fails later must not delete them.
		phase.Step{Phase: phaseTiDB, Name: "await-leaders", Deadline: wait, Do: t.awaitLeaders, Ends: []string{"create-cluster", "create-volumes", "recover"}},
		phase.Step{Phase: phaseTiDB, Name: "await-tidb", Deadline: wait, Do: t.awaitTiDB},
		phase.Step{Phase: phaseTiDB, Name: "thaw", Deadline: 5 * time.Minute, Do: t.resolver.Thaw, Ends: []string{"freeze-scheduling"}, Retry: true},
		phase.Step{Phase: phaseTiDB, Name: "unlock", Deadline: time.Minute, Do: t.unlock, Ends: []string{"lock"}},
	)
}

// Plan is what a restore would do.
type Plan struct {
	Manifest *manifest.Manifest
	Volumes  []Volume
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
	return &Plan{Manifest: t.manifest, Volumes: t.volumes}, nil
}
