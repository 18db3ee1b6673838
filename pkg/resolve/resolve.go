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
	// StoreConcurrency is how many flashback calls a store gets at once; zero is 16.
	StoreConcurrency int
	// Stall is how long nothing may change before the run gives up; zero is 5 min.
	Stall time.Duration
}

// Stamps are the timestamps of a flashback. They are fixed once a run and journalled, so that a repeated
// call is the same call.
type Stamps struct {
	Start  cluster.TS `json:"start,string"`
	Commit cluster.TS `json:"commit,string"`
}

// Resolver resolves one cluster. Its steps run in order.
type Resolver struct {
	cfg  Config
	pd   PD
	tikv TiKV
	log  *zap.Logger

	metas   *Metas
	plan    *Plan
	stamps  Stamps
	recover *recovery
	stats   Stats

	unfreeze context.CancelFunc // ends the renewal of PD's pauses
	freezing sync.WaitGroup

	resending   sync.Mutex  // one look at the stores at a time
	lostToOther atomic.Bool // another run recovers the cluster: what is set in PD is its own now

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
}

// New makes a resolver whose steps can be planned. Target has to be called before they run.
func New(t TiKV, log *zap.Logger) *Resolver {
	if log == nil {
		log = zap.NewNop()
	}
	return &Resolver{tikv: t, log: log}
}

// Target says what is resolved: it is known only when the restored cluster's PD is up.
func (r *Resolver) Target(cfg Config, p PD) {
	if cfg.Replicas == 0 {
		cfg.Replicas = 3
	}
	if cfg.StoreConcurrency == 0 {
		cfg.StoreConcurrency = 16
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
func (r *Resolver) Stats() Stats { return r.stats }

// deadline bounds a step by the size of the work: flashback of a changed key takes TiKV about 40 µs, so
// hours are for the largest clusters only; the stall detector ends a run that stands still much earlier.
const deadline = 6 * time.Hour

// Steps are the sub-phases in order, all timed under the given phase.
func (r *Resolver) Steps(phaseName string) []phase.Step {
	step := func(name string, do func(context.Context, *phase.Scope) error) phase.Step {
		return phase.Step{Phase: phaseName, Name: name, Deadline: deadline, Do: do}
	}
	freeze := step("freeze-scheduling", r.freeze)
	freeze.Undo, freeze.UndoFirst, freeze.UndoDeadline = r.thaw, true, time.Minute // before the cluster is deleted
	elect := step("recover", r.elect)
	elect.Undo, elect.UndoFirst, elect.UndoDeadline = r.endRecover, true, time.Minute
	stamp := step("timestamps", r.stamp)
	stamp.State = &r.stamps
	return []phase.Step{
		step("collect", r.collect),
		step("plan", r.makePlan),
		retried(step("alloc-id", r.raiseAllocID)),
		retried(freeze),
		elect,
		step("apply", r.apply),
		retried(stamp),
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

// stamp takes the flashback's timestamps. PD's oracle was raised above every timestamp in the data before.
func (r *Resolver) stamp(ctx context.Context, _ *phase.Scope) error {
	if r.cfg.BackupTS == 0 {
		return failure.New(failure.Corrupt, "flash back", r.cfg.Cluster.String(), "the backup ts is 0: every row would be deleted")
	}
	var err error
	if r.stamps.Start, err = r.pd.Now(ctx); err != nil {
		return failure.Annotate(err, "take timestamp", r.cfg.Cluster.String())
	}
	if r.stamps.Commit, err = r.pd.Now(ctx); err != nil {
		return failure.Annotate(err, "take timestamp", r.cfg.Cluster.String())
	}
	if r.stamps.Start <= r.cfg.BackupTS || r.stamps.Commit <= r.stamps.Start {
		return failure.New(failure.Corrupt, "flash back", r.cfg.Cluster.String(),
			"PD's timestamps %s and %s are not above the backup ts %s", r.stamps.Start, r.stamps.Commit, r.cfg.BackupTS)
	}
	lowest, err := r.pd.HoldGC(ctx, r.service(), r.cfg.BackupTS, 24*time.Hour)
	if err != nil {
		return failure.Annotate(err, "hold gc", r.cfg.Cluster.String())
	}
	if lowest > r.cfg.BackupTS {
		return failure.New(failure.Corrupt, "hold gc", r.cfg.Cluster.String(),
			"the GC safe point %s is above the backup ts %s: versions of that time may be gone", lowest, r.cfg.BackupTS).
			WithHint("restore into a new cluster, and let nothing but the restore use it until it is done")
	}
	return nil
}

// service is the run's name among PD's GC safe points.
func (r *Resolver) service() string { return servicePrefix + string(r.cfg.Run) }

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
