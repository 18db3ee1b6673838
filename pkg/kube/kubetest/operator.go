package kubetest

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

// OperatorConfig tunes an Operator. Delays are in virtual time; zero values are the defaults.
type OperatorConfig struct {
	Clock timescale.Clock
	// PodStart passes between the scheduling of a pod and the start of its volumes and process; default none.
	PodStart time.Duration
	// Resync passes between a component that serves and the Operator's next step; default none, really 8 to 17 s.
	Resync time.Duration
	// Retry passes until a failed start is tried again; default 1 s.
	Retry time.Duration
	// BindSync passes until the binder comes back to a claim that it could not bind at once; default 15 s.
	BindSync time.Duration
	// Collect passes until the garbage collector sees that a TidbCluster is gone: its StatefulSets live until then, and make
	// what they miss again. Default: the Operator's next step.
	Collect time.Duration
	// Poll is how often processes are polled; default 1 s, and never more often than each 20 ms of real time, or than each
	// 200 ms where nothing changes.
	Poll time.Duration
	// Drivers are CSI drivers besides those of EBS, by their names.
	Drivers map[string]Disks
	// Logf takes what Operator 2.x writes only to its log, each line once; nil drops it.
	Logf func(format string, args ...any)
}

// Operator is the stand-in for TiDB Operator and for the controllers, the scheduler, the kubelet and the
// CSI driver below it. It does in process what those do over the network.
type Operator struct {
	objects *Objects
	store   state
	runtime Runtime
	disks   Disks // of EBS
	csi     *provisioner
	cfg     OperatorConfig

	wake chan struct{}
	jobs sync.WaitGroup

	// Only the goroutine of Run touches what follows.
	clusters map[cluster.Name]*clusterState
	unbound  map[types.UID]postponed // claims that the binder comes back to
	attached map[cluster.VolumeID]attachment
	logged   map[string]bool // what has been logged
	due      time.Time       // when the last step found something to do later; zero for nothing
	volumeMu sync.Mutex      // attached is also written by jobs
}

// clusterState is what the Operator remembers of a cluster besides the objects.
type clusterState struct {
	uid   types.UID
	core  bool        // of Operator 2.x: last, goneAt and made are for the other
	last  clusterSpec // as it was last seen
	pd    component
	tidb  component
	pdURL []string
	pods  map[string]*podState
	// members are the pods of PD and TiDB whose claims are made here: those of a real Operator 2.x.
	members map[string]*podState
	// availableAt is since when TiDB might have been started; zero while it may not.
	availableAt time.Time

	// goneAt is since when the TidbCluster is gone; made is of the volumes that its StatefulSets' claims got since.
	goneAt time.Time
	made   *job

	detach   *job
	detachAt time.Time // not again before, after an error
}

// NewOperator makes an Operator for the clusters among the objects. Nothing happens before Run.
func NewOperator(objects *Objects, runtime Runtime, disks Disks, cfg OperatorConfig) *Operator {
	if cfg.Retry == 0 {
		cfg.Retry = time.Second
	}
	if cfg.BindSync == 0 {
		cfg.BindSync = 15 * time.Second
	}
	if cfg.Poll == 0 {
		cfg.Poll = time.Second
	}
	if s, ok := objects.state.(*store); ok {
		s.collectLater()
	}
	o := &Operator{
		objects: objects, store: objects.state, runtime: runtime, disks: disks, cfg: cfg,
		wake:     make(chan struct{}, 1),
		clusters: map[cluster.Name]*clusterState{},
		unbound:  map[types.UID]postponed{},
		attached: map[cluster.VolumeID]attachment{},
		logged:   map[string]bool{},
	}
	drivers := map[string]Disks{ebsDriver: disks, autoModeDriver: disks}
	maps.Copy(drivers, cfg.Drivers)
	o.csi = &provisioner{store: objects.state, drivers: drivers, warn: o.warn}
	return o
}

func (o *Operator) now() time.Time { return o.cfg.Clock.Now() }

// early reports whether it is before t, and then notes t for the loop, which reconciles at the earliest of them.
func (o *Operator) early(t time.Time) bool {
	if !o.now().Before(t) {
		return false
	}
	if o.due.IsZero() || t.Before(o.due) {
		o.due = t
	}
	return true
}

// reconcile brings everything one step forward. It never waits.
func (o *Operator) reconcile(ctx context.Context) {
	if o.objects.controlled {
		o.finishPods()
	} else {
		o.bindClaims()
	}
	o.csi.step(ctx)
	o.placePods(ctx)
	list, _ := o.store.list(tidbClusters, "")
	present := map[cluster.Name]bool{}
	for _, tc := range list {
		spec, err := parseCluster(tc)
		if err != nil {
			o.warn(tc, "FailedSync", err.Error())
			continue
		}
		state := o.clusters[spec.name]
		if state != nil && state.uid != spec.uid {
			continue // the old one goes first
		}
		if state == nil {
			state = &clusterState{uid: spec.uid, pods: map[string]*podState{}}
			o.clusters[spec.name] = state
		}
		present[spec.name] = true
		state.last = spec
		o.reconcileCluster(ctx, state, spec)
	}
	o.reconcileCore(ctx, present)
	for name, state := range o.clusters {
		switch {
		case present[name]:
		case !state.core:
			o.tearDown(ctx, name, state)
		case o.ended(ctx, name, state):
			o.forget(name, state)
		}
	}
	o.collectUnknown()
}

// reconcileCluster goes PD, TiKV, TiDB: each waits for the one before.
func (o *Operator) reconcileCluster(ctx context.Context, c *clusterState, spec clusterSpec) {
	defer o.writeStatus(c, spec)
	o.setReclaimPolicy(spec)
	o.ensureDiscovery(spec)
	o.reconcilePD(ctx, c, spec)
	if !c.pd.started || o.early(c.pd.servesAt.Add(o.cfg.Resync)) {
		return
	}
	if spec.recovery && !spec.volumesReady && len(c.pods) == 0 {
		return
	}
	o.ensureStatefulSet(spec, "tikv", spec.tikv)
	o.reconcileTiKV(ctx, c, spec)
	if !c.tikvAvailable(spec) { // also in recovery mode, as the real one
		c.availableAt = time.Time{}
		return
	}
	if c.availableAt.IsZero() {
		c.availableAt = o.now()
	}
	if o.early(c.availableAt.Add(o.cfg.Resync)) {
		return
	}
	o.reconcileTiDB(ctx, c, spec)
}

// tearDown stops the processes of a deleted cluster and detaches its volumes; claims and volumes stay, as
// with the real Operator and reclaim policy Retain.
func (o *Operator) tearDown(ctx context.Context, name cluster.Name, c *clusterState) {
	if c.goneAt.IsZero() {
		c.goneAt = o.now()
		o.makeAgain(ctx, c)
	} else if o.early(c.goneAt.Add(o.cfg.Collect)) {
		o.makeAgain(ctx, c)
	} else {
		o.collect(c.last)
	}
	if o.ended(ctx, name, c) && (!o.early(c.goneAt.Add(o.cfg.Collect)) || !o.setLives(c.last)) {
		o.forget(name, c)
	}
}

// ended stops the stores of a cluster, and reports whether all have ended and no volume is still attached.
func (o *Operator) ended(ctx context.Context, name cluster.Name, c *clusterState) bool {
	for pod, p := range c.pods {
		if o.stopped(ctx, name, p) {
			delete(c.pods, pod)
		}
	}
	return len(c.pods) == 0 && o.detached(ctx, c, name, "") && !c.pd.running() && !c.tidb.running() && !c.made.running()
}

// forget stops what is left of a cluster.
func (o *Operator) forget(name cluster.Name, c *clusterState) {
	if c.tidb.started || c.tidb.job != nil {
		o.runtime.StopTiDB(name)
	}
	if c.pd.started || c.pd.job != nil {
		o.runtime.StopPD(name)
	}
	delete(o.clusters, name)
}

// collect deletes what a cluster that is gone owned, and what was made for it after it had been deleted, as the garbage
// collector does with objects whose owner is gone. A new cluster of the name waits for that.
func (o *Operator) collect(spec clusterSpec) {
	if s, ok := o.store.(*store); ok {
		s.collect(spec.uid)
	}
	for _, kind := range []string{"StatefulSet", "Pod"} {
		r, _ := resourceByKind(kind)
		list, _ := o.store.list(r.name, spec.name.Namespace)
		for _, obj := range list {
			labels := meta(obj).GetLabels()
			if labels[instanceLabel] == spec.instance && labels["app.kubernetes.io/managed-by"] == "tidb-operator" {
				_, _ = o.store.remove(r, spec.name.Namespace, meta(obj).GetName(), metav1.DeleteOptions{})
			}
		}
	}
}
