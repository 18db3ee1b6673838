package scale

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/flashstore"
)

// modelRuntime runs the pods of restored clusters in the model's time, with stores of very many regions and no keys. Those
// of the cluster that is backed up run as ever.
type modelRuntime struct {
	kubetest.Runtime // of the testbed
	bed              *testbed.Testbed
	clock            timescale.Clock
	regions          []*metapb.Region
	end              mark

	mu       sync.Mutex
	clusters map[cluster.Name]*modelCluster
}

// mark is where the logs of the cluster that was backed up ended.
type mark struct{ term, index uint64 }

// modelCluster is one restored cluster. It is safe for concurrent use.
type modelCluster struct {
	changed int // each so-many-th region was written to after the marks

	mu     sync.Mutex
	stores map[string]*flashstore.Store // by pod
	booted bool
	tidb   int
	asked  time.Time // when TiDB was started
}

// add makes the next cluster of the name one whose regions have so far changed.
func (m *modelRuntime) add(name cluster.Name, changed float64) *modelCluster {
	c := &modelCluster{changed: max(1, int(1/changed+0.5)), stores: map[string]*flashstore.Store{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clusters[name] = c
	return c
}

func (m *modelRuntime) cluster(name cluster.Name) *modelCluster {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clusters[name]
}

// StartPD implements kubetest.Runtime.
func (m *modelRuntime) StartPD(ctx context.Context, name cluster.Name, replicas int) ([]string, error) {
	if m.cluster(name) != nil {
		if err := m.clock.Sleep(ctx, modelPD); err != nil {
			return nil, err
		}
	}
	return m.Runtime.StartPD(ctx, name, replicas)
}

// StartTiKV implements kubetest.Runtime.
func (m *modelRuntime) StartTiKV(ctx context.Context, p kubetest.TiKVPod) error {
	c := m.cluster(p.Cluster)
	if c == nil {
		return m.Runtime.StartTiKV(ctx, p)
	}
	if s := c.store(p.Pod); s != nil { // its pod was deleted
		if err := m.clock.Sleep(ctx, modelRestart); err != nil {
			return err
		}
		return s.LeaveRecovery(ctx)
	}
	if err := m.clock.Sleep(ctx, modelTiKV); err != nil {
		return err
	}
	s, err := m.start(ctx, c, p)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stores[p.Pod] = s
	return nil
}

// start starts the store whose volume the pod has.
func (m *modelRuntime) start(ctx context.Context, c *modelCluster, p kubetest.TiKVPod) (*flashstore.Store, error) {
	volume, _ := m.bed.EC2.Volume(p.Volumes[0].Volume)
	id, err := strconv.ParseUint(volume.Tags[ebs.TagStore], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("volume %s is of no store: %w", p.Volumes[0].Volume, err)
	}
	pd := m.bed.Nodes.Cluster(p.Cluster).PD
	if !pd.Recovering() {
		return nil, fmt.Errorf("store %d was started before PD was marked", id)
	}
	if err := c.bootstrap(ctx, pd, m.regions[0].Peers); err != nil {
		return nil, err
	}
	var held []*metapb.Region
	for _, region := range m.regions {
		for _, peer := range region.Peers {
			if peer.StoreId == id {
				held = append(held, region)
			}
		}
	}
	longer := make(map[uint64]bool, len(m.regions)/c.changed+1)
	for i := 0; i < len(m.regions); i += c.changed {
		longer[m.regions[i].Id] = true
	}
	led := float64(len(m.regions)) / publishedStores
	return flashstore.Start(ctx, flashstore.Config{
		ID: id, PD: pd, Regions: held, Slots: modelSlots, Cost: m.clock.Real(modelCall),
		Walk: time.Duration(float64(m.clock.Real(modelWalk)) / led),
		Term: m.end.term, Index: m.end.index, Longer: func(region uint64) bool { return longer[region] },
		FirstHeartbeat: m.clock.Real(modelHeartbeat), Election: m.clock.Real(modelElection),
	})
}

// bootstrapper is the PD of a cluster.
type bootstrapper interface {
	Bootstrap(ctx context.Context, req *pdpb.BootstrapRequest) (*pdpb.BootstrapResponse, error)
	ClusterID() uint64
}

// bootstrap makes PD know a cluster, as its first store does.
func (c *modelCluster) bootstrap(ctx context.Context, pd bootstrapper, peers []*metapb.Peer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.booted {
		return nil
	}
	c.booted = true
	whole := &metapb.Region{Id: 1, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1}, Peers: peers[:1]}
	_, err := pd.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Header: &pdpb.RequestHeader{ClusterId: pd.ClusterID()}, Store: &metapb.Store{Id: peers[0].StoreId, Address: "127.0.0.1:1"}, Region: whole,
	})
	return err
}

func (c *modelCluster) store(pod string) *flashstore.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stores[pod]
}

// all lists the stores that were started.
func (c *modelCluster) all() []*flashstore.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*flashstore.Store
	for _, s := range c.stores {
		all = append(all, s)
	}
	return all
}

// StopTiKV implements kubetest.Runtime.
func (m *modelRuntime) StopTiKV(ctx context.Context, name cluster.Name, pod string) {
	c := m.cluster(name)
	if c == nil {
		m.Runtime.StopTiKV(ctx, name, pod)
		return
	}
	if s := c.store(pod); s != nil {
		s.Stop()
	}
}

// TiKV implements kubetest.Runtime.
func (m *modelRuntime) TiKV(name cluster.Name, pod string) (cluster.StoreID, string, bool, string) {
	c := m.cluster(name)
	if c == nil {
		return m.Runtime.TiKV(name, pod)
	}
	s := c.store(pod)
	if s == nil {
		return 0, "", false, "not started"
	}
	return cluster.StoreID(s.ID()), s.Address(), true, ""
}

// StartTiDB implements kubetest.Runtime.
func (m *modelRuntime) StartTiDB(ctx context.Context, name cluster.Name, replicas int) error {
	c := m.cluster(name)
	if c == nil {
		return m.Runtime.StartTiDB(ctx, name, replicas)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tidb, c.asked = replicas, m.clock.Now()
	return nil
}

// TiDBReady implements kubetest.Runtime: TiDB serves when it has started and every region has a leader.
func (m *modelRuntime) TiDBReady(name cluster.Name) int {
	c := m.cluster(name)
	if c == nil {
		return m.Runtime.TiDBReady(name)
	}
	c.mu.Lock()
	replicas, serves := c.tidb, c.asked.Add(modelTiDB)
	c.mu.Unlock()
	if replicas == 0 || m.clock.Now().Before(serves) {
		return 0
	}
	led := 0
	for _, s := range c.all() {
		led += len(s.Led())
	}
	if led < len(m.regions) {
		return 0
	}
	return replicas
}

// StopTiDB implements kubetest.Runtime.
func (m *modelRuntime) StopTiDB(name cluster.Name) {
	if m.cluster(name) == nil {
		m.Runtime.StopTiDB(name)
	}
}
