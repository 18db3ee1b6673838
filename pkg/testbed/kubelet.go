package testbed

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// Kubelet starts and stops the processes of pods: it implements kubetest.Runtime.
type Kubelet struct {
	bed       *Testbed
	cfg       Config
	addresses addresses

	mu       sync.Mutex
	clusters map[cluster.Name]*Cluster
	total    map[cluster.Name]int // stores of a cluster that is in several Kubernetes clusters
	seed     int64
}

var _ kubetest.Runtime = (*Kubelet)(nil)

// domain ends the DNS names of pods and services.
func (c Config) domain() string {
	if c.ClusterDomain == "" {
		return ""
	}
	return "." + c.ClusterDomain
}

func newKubelet(bed *Testbed, cfg Config) *Kubelet {
	return &Kubelet{bed: bed, cfg: cfg, addresses: addresses{file: cfg.HostsFile}, clusters: map[cluster.Name]*Cluster{}, total: map[cluster.Name]int{}, seed: cfg.Seed}
}

// Cluster is the processes of a TidbCluster, or nil if PD was never started.
func (k *Kubelet) Cluster(name cluster.Name) *Cluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clusters[name]
}

func (k *Kubelet) nextSeed() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seed++
	return k.seed
}

// StartPD starts PD, or returns the addresses of the one that runs.
func (k *Kubelet) StartPD(_ context.Context, name cluster.Name, members int) ([]string, error) {
	if c := k.Cluster(name); c != nil {
		return c.PD.URLs(), nil
	}
	if first, ok := k.joins(name); ok {
		return k.join(name, first)
	}
	cfg := k.cfg.PD
	cfg.Faults, cfg.TLS, cfg.Members = k.cfg.Faults, k.cfg.TLS, cmp.Or(cfg.Members, members)
	if k.cfg.DNSNames {
		cfg.Advertise = k.pdHost(name) + k.cfg.domain()
	}
	var err error
	if cfg.Addr, cfg.Name, err = k.addressPD(name); err != nil {
		return nil, err
	}
	pd, err := pdtest.New(cfg)
	if err != nil {
		return nil, err
	}
	if err := pd.Start(); err != nil {
		return nil, err
	}
	c := &Cluster{Name: name, PD: pd, http: httpClient(k.cfg.TLS), network: tikvtest.NewNetwork(), stores: map[string]*tikvtest.Store{}, starting: map[string]string{}, addrs: map[string]string{}, static: k.cfg.StaticRegions, boot: k.cfg.Boot, sql: &sqlPort{addresses: pd.URLs, faults: k.cfg.Faults}}
	k.mu.Lock()
	k.clusters[name] = c
	k.mu.Unlock()
	return pd.URLs(), nil
}

// StopPD stops PD and forgets the cluster. One that was joined stays.
func (k *Kubelet) StopPD(name cluster.Name) {
	c := k.Cluster(name)
	if c == nil {
		return
	}
	if c.Name == name {
		c.close()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.clusters, name)
}

// StartTiKV runs a store on the pod's volumes. The stores of a new cluster bootstrap it when all are there.
func (k *Kubelet) StartTiKV(ctx context.Context, p kubetest.TiKVPod) error {
	c := k.Cluster(p.Cluster)
	if c == nil {
		return fmt.Errorf("cluster %s has no PD", p.Cluster)
	}
	cfg := tikvtest.Config{
		PD: c.PD, Network: c.network, Seed: k.nextSeed(), Faults: k.cfg.Faults, Options: k.cfg.TiKV, Logf: k.cfg.Logf,
		TLS: k.cfg.TLS,
	}
	if k.cfg.DNSNames {
		cfg.Advertise = p.Host + k.cfg.domain()
	}
	cfg.Options.Static = k.cfg.StaticRegions > 0
	for _, v := range p.Volumes {
		device, err := k.bed.device(v.Driver, v.Volume)
		if err != nil {
			return err
		}
		switch v.Role {
		case cluster.RoleData:
			cfg.Data = device
		case cluster.RoleRaftLog:
			cfg.RaftLog = device
		case cluster.RoleWAL: // the stand-in writes no log of its own beside raft's
		}
	}
	if cfg.Data == nil || cfg.RaftLog == nil {
		return fmt.Errorf("pod %s needs a volume for %s and one for %s", p.Pod, cluster.RoleData, cluster.RoleRaftLog)
	}
	addr, ok := c.begin(p.Pod)
	if !ok {
		return nil
	}
	cfg.Addr = addr
	if ip, has, err := k.addresses.next(p.Host); err != nil {
		return err
	} else if has {
		cfg.Addr = net.JoinHostPort(ip, portOfTiKV)
	}
	// A crash at the start ends the process, not the pod: the pod shows the reason and is started again.
	store, err := tikvtest.Start(context.WithoutCancel(ctx), cfg)
	if err != nil {
		c.crashed(p.Pod, err)
		return err
	}
	c.started(p.Pod, store, k.replicas(p.Cluster))
	return nil
}

// replicas is the number of TiKV pods that the cluster is to have, in all Kubernetes clusters.
func (k *Kubelet) replicas(name cluster.Name) int {
	k.mu.Lock()
	total := k.total[name]
	k.mu.Unlock()
	if total > 0 {
		return total
	}
	n := 0
	for _, group := range k.bed.groups(name, "tikvgroups") {
		stores, _, _ := unstructured.NestedInt64(group.Object, "spec", "replicas")
		n += int(stores)
	}
	if tc := k.bed.Objects.Get("tidbclusters", name.Namespace, name.Name); tc != nil {
		stores, _, _ := unstructured.NestedInt64(tc.Object, "spec", "tikv", "replicas")
		n += int(stores)
	}
	return n
}

// StopTiKV kills the store.
func (k *Kubelet) StopTiKV(_ context.Context, name cluster.Name, pod string) {
	if c := k.Cluster(name); c != nil {
		c.stop(pod)
	}
}

// TiKV reports how a store is doing.
func (k *Kubelet) TiKV(name cluster.Name, pod string) (cluster.StoreID, string, bool, string) {
	c := k.Cluster(name)
	if c == nil {
		return 0, "", false, "the cluster has no PD"
	}
	return c.store(pod)
}

// ClusterID is PD's, once the first store has data.
func (k *Kubelet) ClusterID(name cluster.Name) uint64 {
	c := k.Cluster(name)
	if c == nil || !slices.ContainsFunc(c.Stores(), func(s *tikvtest.Store) bool { return len(s.Peers()) > 0 }) {
		return 0
	}
	return c.PD.ClusterID()
}

// Regions counts a store's.
func (k *Kubelet) Regions(name cluster.Name, pod string) (leaders, regions int) {
	c := k.Cluster(name)
	if c == nil {
		return 0, 0
	}
	c.mu.Lock()
	s := c.stores[pod]
	c.mu.Unlock()
	if s == nil {
		return 0, 0
	}
	peers := s.Peers()
	for _, p := range peers {
		if p.Serving {
			leaders++
		}
	}
	return leaders, len(peers)
}

// StartTiDB notes how many servers are to run; they answer when every region is served.
func (k *Kubelet) StartTiDB(ctx context.Context, name cluster.Name, replicas int) error {
	c := k.Cluster(name)
	if c == nil {
		return fmt.Errorf("cluster %s has no PD", name)
	}
	c.setTiDB(replicas)
	if err := k.serveTiDB(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	if replicas == 0 || c.static > 0 || k.cfg.TLS != nil { // who has TLS on needs files to read the stores
		return nil
	}
	return c.sql.start()
}

// TiDBReady is how many servers answer: all, once the regions that are served cover the key space.
func (k *Kubelet) TiDBReady(name cluster.Name) int {
	if c := k.Cluster(name); c != nil {
		return c.tidbReady()
	}
	return 0
}

// StopTiDB stops all servers.
func (k *Kubelet) StopTiDB(name cluster.Name) {
	if c := k.Cluster(name); c != nil {
		c.setTiDB(0)
		c.sql.stop()
	}
}

// all lists the clusters by name: two lists of calls are compared.
func (k *Kubelet) all() []*Cluster {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.SortedFunc(maps.Values(k.clusters), func(a, b *Cluster) int { return strings.Compare(a.Name.String(), b.Name.String()) })
}

func (k *Kubelet) stopAll() {
	for _, c := range k.all() {
		k.StopPD(c.Name)
	}
}

func (k *Kubelet) mutatingCalls() []string {
	var calls []string
	for _, c := range k.all() {
		for _, call := range c.PD.MutatingCalls() {
			calls = append(calls, "pd "+call)
		}
		for _, s := range c.Stores() {
			for _, call := range s.MutatingCalls() {
				calls = append(calls, fmt.Sprintf("tikv %d %s", s.ID(), call))
			}
		}
	}
	return calls
}
