package resolve

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/freeze"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// PD is what resolving needs from the restored cluster's placement driver.
type PD interface {
	pd.Members
	pd.Scheduling
	pd.GC
	pd.Recovery
	pd.Operators
}

// TiKV is what resolving needs from the stores.
type TiKV interface {
	tikv.Recoverer
	tikv.Flashbacker
	tikv.Marker
}

// Config configures one resolve.
type Config struct {
	Cluster  cluster.Name
	Run      cluster.RunID
	BackupTS cluster.TS // to which every key is flashed back; never above the backup's resolved ts
	Stores   []cluster.StoreID
	// TolerateStores are the backup's stores without which the cluster is brought up. They are not called, may be
	// missing from PD, and every region must have a quorum on the others. They may also be in Stores.
	TolerateStores []cluster.StoreID
	// Backup names the backup in hints. Kept means that the cluster is kept if the run fails: only then can it be
	// resolved without a store that does not come up.
	Backup   cluster.BackupID
	Kept     bool
	Replicas int    // voters of a region; zero is 3
	AllocID  uint64 // the manifest's; the plan's may be higher
	// MaxTS bounds all timestamps in the data; PD's oracle is raised above it. Zero means that the caller has done so.
	MaxTS cluster.TS
	// Stall is how long nothing may change before the run fails; zero is 5 min.
	Stall time.Duration
	// Coming reports whether another step still waits for the stores, and decides about those that do not come up,
	// refuse or are foreign: until then collect only retries. It must be safe for concurrent use; nil means never.
	Coming func() bool
	// WaitApply waits, before the flashback, for every RecoverRegion's answer, which takes TiKV 10 or 20 s, and until
	// every peer has applied its log. The data is the same without.
	WaitApply bool
	// Marks are where the regions' logs ended before the backup's hold, valid if the backup ts is above marks.After of
	// their timestamp. Nil flashes back every region.
	Marks *marks.Set
	// FlashAll flashes back every region, even those that an earlier run found unchanged.
	FlashAll bool
	// CheckUnchanged is how many unchanged regions, chosen at random, are flashed back anyway: if one of them changes,
	// the run fails.
	CheckUnchanged int
	// NoneAhead means that no replica in the backup can be ahead of its raft log. Otherwise all are checked.
	NoneAhead bool
	// Rebuilds means that the caller calls Rebuild once the stores have left recovery mode, and before the cluster is
	// used: then a replica that is ahead does not fail the run.
	Rebuilds bool
	// Progress keeps the run's progress, for one that resumes it after a kill. Nil keeps nothing.
	Progress ProgressStore
	// Fence is checked right before each call that changes data. Nil is for a cluster that no other run can have.
	Fence fenced.Fence
	// Times records how long collect, recover and flashback took on each store; may be nil.
	Times *phase.StoreTimes
}

// settings are shared by all parts of the run. They do not change once there is a plan.
type settings struct {
	Config
	log *zap.Logger
}

// target sets what is resolved, with the defaults.
func (c *settings) target(of Config) {
	if of.Replicas == 0 {
		of.Replicas = 3
	}
	if of.Progress == nil {
		of.Progress = NoProgress{}
	}
	if of.Coming == nil {
		of.Coming = func() bool { return false }
	}
	if of.Fence == nil {
		of.Fence = new(fenced.None)
	}
	if of.Stall == 0 {
		of.Stall = 5 * time.Minute
	}
	of.Stores = slices.DeleteFunc(slices.Clone(of.Stores), func(id cluster.StoreID) bool {
		return slices.Contains(of.TolerateStores, id)
	})
	c.Config = of
}

// marked sets Config.Marks.
func (c *settings) marked(set *marks.Set) { c.Marks = set }

// Resolver resolves one cluster. Its steps run in order: each makes a part from earlier ones, and keeps here what a
// later one, or the caller, needs.
type Resolver struct {
	cfg  *settings
	pd   PD
	tikv TiKV

	record    *record
	freezer   *freeze.Freezer
	questions questions
	stores    *storeList  // made by collect
	metas     *plan.Metas // until the plan is made
	plan      *plan.Plan
	recovery  *recovery // made by makeLeaders, as is flashing
	flashing  *flashback
	stats     Stats // of the plan, and of what is not a part's
}

// Stats describes what a resolve did.
type Stats struct {
	Regions int `json:"regions"`
	Peers   int `json:"peers"`
	Lagging int `json:"lagging"`
	// Uneven is the number of regions whose peers disagreed about the version: not 0 means that the backup's hold was
	// broken.
	Uneven int `json:"uneven"`
	// Dropped is the number of regions whose range a newer region covers: a merge or split that had not
	// reached all stores.
	Dropped int `json:"dropped"`
	// Ahead is the number of replicas whose data was ahead of their leader's log, Rebuilt how many of them were rebuilt
	// from the others.
	Ahead   int    `json:"ahead,omitempty"`
	Rebuilt int    `json:"rebuilt,omitempty"`
	AllocID uint64 `json:"allocID"`
	// Unchanged is the number of regions that were not flashed back, as nothing was written to them since the backup
	// ts, and Flashed that of the others, including those of runs that this one resumes.
	Unchanged int `json:"unchanged,omitempty"`
	Flashed   int `json:"flashed,omitempty"`
	// Checked is how many unchanged regions were flashed back anyway, and did not change.
	Checked int `json:"checked,omitempty"`
	// SavedSeconds is how much longer flashing back all regions would have taken, at this run's rate.
	SavedSeconds float64 `json:"savedSeconds,omitempty"`
	// Retries counts repeated flashback calls.
	Retries int64 `json:"retries"`
	// WaitedApply is whether the run waited for every store's log before the flashback.
	WaitedApply bool `json:"waitedApply,omitempty"`
	// ResumedRun is the run that this one resumed and whose timestamps it uses.
	ResumedRun cluster.RunID `json:"resumedRun,omitempty"`
	// Resent counts repeated RecoverRegion calls: after a restart, or because regions made no progress.
	Resent int64 `json:"resent"`
}

// raised notes the id up to which PD allocates none.
func (s *Stats) raised(id uint64) { s.AllocID = id }

// rebuilt notes how many replicas were rebuilt.
func (s *Stats) rebuilt(replicas int) { s.Ahead, s.Rebuilt = replicas, replicas }

// New makes a resolver whose steps can be planned. Target must be called before they run.
func New(t TiKV, log *zap.Logger) *Resolver {
	if log == nil {
		log = zap.NewNop()
	}
	cfg := &settings{log: log}
	return &Resolver{cfg: cfg, tikv: t, questions: questions{asked: make(chan question)}, record: newRecord(cfg)}
}

// Target sets what is resolved, which is only known once the restored cluster's PD is up.
func (r *Resolver) Target(cfg Config, p PD) {
	r.cfg.target(cfg)
	r.record.connect(p)
	r.pd = p
	r.freezer = freeze.New(freeze.Config{
		Cluster: cfg.Cluster, Service: servicePrefix + string(cfg.Run), BackupTS: cfg.BackupTS,
		PD: p, Fence: r.cfg.Fence, Log: r.cfg.log,
	})
}

// Stats is valid after the steps ran.
func (r *Resolver) Stats() Stats {
	stats := r.stats
	stats.Unchanged, stats.ResumedRun = r.record.unchanged, r.record.before
	if r.recovery != nil {
		stats.Resent, stats.WaitedApply = r.recovery.resent.Load(), r.recovery.waited
	}
	if f := r.flashing; f != nil {
		stats.Flashed, stats.SavedSeconds, stats.Checked = f.flashed, f.savedSeconds, f.checked
		stats.Retries = f.sweeps.retries
	}
	return stats
}

// deadline bounds a step whose own bound grows with the work, or that fails without progress.
const deadline = 48 * time.Hour

// Steps are the sub-phases in order, all timed under the given phase.
func (r *Resolver) Steps(phaseName string, o StepOptions) []phase.Step {
	step := o.maker(phaseName)
	freeze := step(journal.StepFreezeScheduling, r.freeze)
	freeze.Undo = phase.Undo{ // before the cluster is deleted
		Do: r.thaw, First: true, Deadline: time.Minute,
		Unfenced: "PD is released, except for what another run has paused since",
	}
	leaders := step(journal.StepRecover, r.makeLeaders)
	leaders.Undo = phase.Undo{Do: r.endRecover, First: true, Deadline: time.Minute, Unfenced: "it ends its own calls"}
	stamp := step("timestamps", r.stamp)
	stamp.Resume.State = &r.record.stamps
	return append(r.PlanSteps(phaseName, o),
		retried(step("alloc-id", r.raiseAllocID)),
		retried(freeze),
		retried(stamp),
		leaders,
		step("apply", r.apply),
		step("find-unchanged", r.findUnchanged),
		step("prepare", r.prepare),
		step("flashback", r.flashback),
		step("extend-logs", r.extendLogs),
		step("end-recover", r.endRecover),
	)
}

// PlanSteps are the steps from collect to plan: they change nothing, and Plan returns what the others would do.
func (r *Resolver) PlanSteps(phaseName string, o StepOptions) []phase.Step {
	step := o.maker(phaseName)
	collect, plan := step("collect", r.collect), step("plan", r.makePlan)
	collect.Order.After, plan.Order.After = o.CollectAfter, o.PlanAfter
	if o.Target != nil {
		collect.Do = first(func() { r.Target(o.Target()) }, collect.Do)
	}
	if o.Marks != nil {
		plan.Do = first(func() { r.cfg.marked(o.Marks()) }, plan.Do)
	}
	return []phase.Step{collect, step(journal.StepFindAhead, r.findAhead), plan}
}

// StepOptions is what the steps' caller decides. The zero value resolves what Target was given.
type StepOptions struct {
	// Done reports, as each step begins, whether an earlier run has done all of them: then the step does nothing.
	Done func() bool
	// Target returns what is resolved. It is called right before the first store is read, even if Done; nil means that
	// Resolver.Target was called.
	Target func() (Config, PD)
	// Marks returns Config.Marks. It is called right before the plan, when all stores are there; nil keeps
	// Config.Marks.
	Marks func() *marks.Set
	// CollectAfter and PlanAfter are these steps' predecessors, as in phase.Order.
	CollectAfter, PlanAfter []string
}

// maker makes steps of the phase.
func (o StepOptions) maker(
	phaseName string,
) func(name string, do func(context.Context, *phase.Scope) error) phase.Step {
	return func(name string, do func(context.Context, *phase.Scope) error) phase.Step {
		step := phase.Step{Phase: phaseName, Name: name, Deadline: deadline, Do: do}
		if o.Done != nil {
			step.Do = func(ctx context.Context, s *phase.Scope) error {
				if o.Done() {
					return nil
				}
				return do(ctx, s)
			}
		}
		return step
	}
}

func first(before func(), do func(context.Context, *phase.Scope) error) func(context.Context, *phase.Scope) error {
	return func(ctx context.Context, s *phase.Scope) error {
		before()
		return do(ctx, s)
	}
}

// retried is for steps of few calls that a change of PD's leader must not fail.
func retried(s phase.Step) phase.Step {
	s.Retry, s.Deadline = true, 10*time.Minute
	return s
}
