package resolve

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// PD is what resolving needs of the restored cluster's placement driver.
type PD interface {
	pd.Members
	pd.Scheduling
	pd.GC
	pd.Recovery
}

// TiKV is what resolving needs of the stores.
type TiKV interface {
	tikv.Recoverer
	tikv.Flashbacker
}

// Config is one resolve.
type Config struct {
	Cluster  cluster.Name
	Run      cluster.RunID
	BackupTS cluster.TS // what every key returns to; never above the resolved ts of the backup
	Stores   []cluster.StoreID
	// TolerateStores are the stores of the backup that the cluster is brought up without. They are not asked,
	// may be missing from PD, and every region must have a quorum on the others. They may be listed in Stores too.
	TolerateStores []cluster.StoreID
	Replicas       int    // voters of a region; zero is 3
	AllocID        uint64 // the manifest's; the plan's may be higher
	// MaxTS is a timestamp that none in the data is above; PD's oracle is raised above it. Zero means that
	// the caller has done so.
	MaxTS cluster.TS
	// Stall is how long nothing may change before the run gives up; zero is 5 min.
	Stall time.Duration
	// WaitApply waits for the answer of every RecoverRegion, which takes TiKV 10 or 20 s, and until every
	// peer has applied its log, before the flashback begins. The data are the same without.
	WaitApply bool
	// Progress is where the run notes how far it is, for one that goes on if it is killed. Nil keeps nothing.
	Progress ProgressStore
	// Fence is asked right before each call that changes the data. Nil is for a cluster that no other run can have.
	Fence Fence
}

// Resolver resolves one cluster. Its steps run in order.
type Resolver struct {
	cfg  Config
	pd   PD
	tikv TiKV
	log  *zap.Logger

	metas   *Metas
	plan    *Plan
	recover *recovery
	stats   Stats

	// What a run that goes on needs. Sub-phases that come after each other own it.
	clusterID         uint64
	stamps            Stamps
	prepared, flashed *coverage
	resumed           bool // regions may be prepared by the run before

	unfreeze context.CancelFunc // ends the renewal of PD's pauses
	freezing sync.WaitGroup

	resending sync.Mutex // one look at the stores at a time
	resent    atomic.Int64
	passed    atomic.Uint64 // the GC safe point, once it is above the backup ts

	mu        sync.Mutex
	addresses map[cluster.StoreID]string
}

// Stats is what a resolve did.
type Stats struct {
	Regions int `json:"regions"`
	Peers   int `json:"peers"`
	Lagging int `json:"lagging"`
	// Uneven is the number of regions whose peers disagreed about the version: not 0 means that the
	// backup's hold had not held.
	Uneven int `json:"uneven"`
	// Dropped is the number of regions whose range a newer region covers: a merge or split that had not
	// reached all stores.
	Dropped int    `json:"dropped"`
	AllocID uint64 `json:"allocID"`
	// Retries counts flashback calls that had to be sent again.
	Retries int64 `json:"retries"`
	// WaitedApply is whether every store's log was waited for before the flashback.
	WaitedApply bool `json:"waitedApply,omitempty"`
	// ResumedRun is the run that this one went on after, with its timestamps.
	ResumedRun cluster.RunID `json:"resumedRun,omitempty"`
	// Resent counts stores that were asked to recover again: after a restart, or because they stood still.
	Resent int64 `json:"resent"`
}

// New makes a resolver whose steps can be planned. Target has to be called before they run.
func New(t TiKV, log *zap.Logger) *Resolver {
	if log == nil {
		log = zap.NewNop()
	}
	return &Resolver{tikv: t, log: log, prepared: newCoverage(), flashed: newCoverage()}
}

// Target says what is resolved: it is known only when the restored cluster's PD is up.
func (r *Resolver) Target(cfg Config, p PD) {
	if cfg.Replicas == 0 {
		cfg.Replicas = 3
	}
	if cfg.Progress == nil {
		cfg.Progress = NoProgress{}
	}
	if cfg.Fence == nil {
		cfg.Fence = &noOtherRun{}
	}
	if cfg.Stall == 0 {
		cfg.Stall = 5 * time.Minute
	}
	cfg.Stores = slices.DeleteFunc(slices.Clone(cfg.Stores), func(id cluster.StoreID) bool {
		return slices.Contains(cfg.TolerateStores, id)
	})
	r.cfg, r.pd = cfg, p
}

// Stats is valid after the steps ran.
func (r *Resolver) Stats() Stats {
	stats := r.stats
	stats.Resent = r.resent.Load()
	return stats
}

// deadline bounds a step whose own bound grows with the work, or that ends when nothing moves any more.
const deadline = 48 * time.Hour

// Steps are the sub-phases in order, all timed under the given phase.
func (r *Resolver) Steps(phaseName string) []phase.Step {
	step := func(name string, do func(context.Context, *phase.Scope) error) phase.Step {
		return phase.Step{Phase: phaseName, Name: name, Deadline: deadline, Do: do}
	}
	freeze := step(journal.StepFreezeScheduling, r.freeze)
	freeze.Undo, freeze.UndoFirst, freeze.UndoDeadline = r.thaw, true, time.Minute // before the cluster is deleted
	elect := step(journal.StepRecover, r.elect)
	elect.Undo, elect.UndoFirst, elect.UndoDeadline = r.endRecover, true, time.Minute
	stamp := step("timestamps", r.stamp)
	stamp.State = &r.stamps
	return []phase.Step{
		step("collect", r.collect),
		step("plan", r.makePlan),
		retried(step("alloc-id", r.raiseAllocID)),
		retried(freeze),
		retried(stamp),
		elect,
		step("apply", r.apply),
		step("prepare", r.prepare),
		step("flashback", r.flashback),
		step("end-recover", r.endRecover),
	}
}

// retried is for steps of few calls that a change of PD's leader must not end.
func retried(s phase.Step) phase.Step {
	s.Retry, s.Deadline = true, 10*time.Minute
	return s
}

func (r *Resolver) makePlan(_ context.Context, s *phase.Scope) error {
	plan, err := MakePlan(r.metas, Rules{Replicas: r.cfg.Replicas, Lost: r.cfg.TolerateStores})
	if err != nil {
		return err
	}
	r.plan, r.metas = plan, nil // millions of peers are a GiB
	r.stats = Stats{
		Regions: len(plan.Leaders), Peers: plan.Peers, Lagging: plan.Lagging, Uneven: len(plan.Uneven),
		Dropped: len(plan.Dropped), AllocID: plan.AllocID,
	}
	s.Note("%d regions with %d peers, %d of them behind their leader", len(plan.Leaders), plan.Peers, plan.Lagging)
	if len(plan.Dropped) > 0 {
		s.Warn("%d regions (such as region %s) are covered by newer ones and will have no leader", len(plan.Dropped), plan.Dropped[0].Region)
	}
	if len(plan.Uneven) > 0 {
		s.Warn("the peers of %d regions (such as region %s) disagree about the version: a split or merge fell into the cut of the backup",
			len(plan.Uneven), plan.Uneven[0])
	}
	return nil
}

// raiseAllocID keeps PD from giving out an id that the data hold already.
func (r *Resolver) raiseAllocID(ctx context.Context, _ *phase.Scope) error {
	id := max(r.plan.AllocID, r.cfg.AllocID)
	r.stats.AllocID = id
	return failure.Annotate(r.pd.RaiseAllocID(ctx, id), "raise alloc id", r.cfg.Cluster.String())
}

func (r *Resolver) address(store cluster.StoreID) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addresses[store]
}

func (r *Resolver) setAddress(store cluster.StoreID, address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addresses[store] = address
}
