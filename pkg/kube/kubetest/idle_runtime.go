package kubetest

import (
	"context"
	"fmt"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// IdleRuntime is a Runtime without processes, for tests of Kubernetes alone: everything is
// ready as soon as it is started. It keeps a store's id with its data volume, as TiKV does. The zero value works.
type IdleRuntime struct {
	mu      sync.Mutex
	nextID  cluster.StoreID
	idOf    map[cluster.VolumeID]cluster.StoreID
	stores  map[string]TiKVPod // by namespace/pod
	starts  []TiKVPod
	tidb    map[cluster.Name]int
	pd      map[cluster.Name]int
	unready map[string]string
	regions map[string][2]int // leaders and regions
}

// StartPD returns made-up URLs.
func (r *IdleRuntime) StartPD(_ context.Context, name cluster.Name, replicas int) ([]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pd == nil {
		r.pd = map[cluster.Name]int{}
	}
	r.pd[name] = replicas
	urls := make([]string, replicas)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://%s-pd-%d.%s-pd-peer.%s.svc:2379", name.Name, i, name.Name, name.Namespace)
	}
	return urls, nil
}

// StopPD forgets the cluster's PD.
func (r *IdleRuntime) StopPD(name cluster.Name) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pd, name)
}

// StartTiKV notes the pod as running.
func (r *IdleRuntime) StartTiKV(_ context.Context, p TiKVPod) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stores == nil {
		r.stores, r.idOf, r.nextID = map[string]TiKVPod{}, map[cluster.VolumeID]cluster.StoreID{}, 4
	}
	r.stores[p.Cluster.Namespace+"/"+p.Pod] = p
	r.starts = append(r.starts, p)
	if data := p.Volumes[0].Volume; r.idOf[data] == 0 {
		r.idOf[data] = r.nextID
		r.nextID++
	}
	return nil
}

// StopTiKV forgets the pod.
func (r *IdleRuntime) StopTiKV(_ context.Context, name cluster.Name, pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.stores, name.Namespace+"/"+pod)
}

// TiKV is ready when it was started, unless SetUnready was called.
func (r *IdleRuntime) TiKV(name cluster.Name, pod string) (cluster.StoreID, string, bool, string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, runs := r.stores[name.Namespace+"/"+pod]
	if !runs {
		return 0, "", false, "process does not run"
	}
	reason := r.unready[name.Namespace+"/"+pod]
	return r.idOf[p.Volumes[0].Volume], pod + ":20160", reason == "", reason
}

// SetUnready makes a store report that it is not ready for the reason; "" undoes that.
func (r *IdleRuntime) SetUnready(namespace, pod, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.unready == nil {
		r.unready = map[string]string{}
	}
	r.unready[namespace+"/"+pod] = reason
}

// SetRegions sets how many regions a store has and leads, which are none without it.
func (r *IdleRuntime) SetRegions(namespace, pod string, leaders, regions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.regions == nil {
		r.regions = map[string][2]int{}
	}
	r.regions[namespace+"/"+pod] = [2]int{leaders, regions}
}

// Regions is what SetRegions was given.
func (r *IdleRuntime) Regions(name cluster.Name, pod string) (leaders, regions int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.regions[name.Namespace+"/"+pod]
	return n[0], n[1]
}

// ClusterID is the same for all clusters, once a store runs.
func (r *IdleRuntime) ClusterID(cluster.Name) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.starts) == 0 {
		return 0
	}
	return 7100000000000000001
}

// StartTiDB notes the servers as ready.
func (r *IdleRuntime) StartTiDB(_ context.Context, name cluster.Name, replicas int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tidb == nil {
		r.tidb = map[cluster.Name]int{}
	}
	r.tidb[name] = replicas
	return nil
}

// TiDBReady is the number that was started.
func (r *IdleRuntime) TiDBReady(name cluster.Name) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tidb[name]
}

// StopTiDB forgets the cluster's TiDB.
func (r *IdleRuntime) StopTiDB(name cluster.Name) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tidb, name)
}

// Starts lists every start of a store so far.
func (r *IdleRuntime) Starts() []TiKVPod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]TiKVPod(nil), r.starts...)
}

// Running counts what runs of a cluster.
func (r *IdleRuntime) Running(name cluster.Name) (pd, tikv, tidb int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.stores {
		if p.Cluster == name {
			tikv++
		}
	}
	return r.pd[name], tikv, r.tidb[name]
}
