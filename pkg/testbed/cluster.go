package testbed

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// bootTimeout bounds the bootstrap of a new cluster.
const bootTimeout = time.Minute

// Cluster is the processes of one TidbCluster.
type Cluster struct {
	Name cluster.Name
	PD   *pdtest.Server

	http    *http.Client // of PD
	network *tikvtest.Network
	web     *http.Server // of TiDB; nil if it needs none
	static  int          // regions that each static store leads; 0 for stores with raft
	boot    tikvtest.Placement
	sql     *sqlPort
	wg      sync.WaitGroup

	mu       sync.Mutex
	stores   map[string]*tikvtest.Store // by pod
	starting map[string]string          // pod that is being started, or why its last start failed
	addrs    map[string]string          // of pods that were started: a pod keeps its name, here its port
	booting  bool
	endBoot  context.CancelFunc // ends the bootstrap: it would wait for a leader among stores that are killed
	booted   bool
	bootErr  error
	tidb     int
	closed   bool
}

// Stores lists the stores that run, by pod name.
func (c *Cluster) Stores() []*tikvtest.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*tikvtest.Store, 0, len(c.stores))
	for _, pod := range slices.Sorted(maps.Keys(c.stores)) {
		out = append(out, c.stores[pod])
	}
	return out
}

// begin claims the start of a pod's process and returns the address that it had before, if any; false if it
// runs already.
func (c *Cluster) begin(pod string) (addr string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.stores[pod]; c.closed || s != nil && !gone(s) {
		return "", false
	}
	delete(c.stores, pod)
	c.starting[pod] = "starting"
	return c.addrs[pod], true
}

func gone(s *tikvtest.Store) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

func (c *Cluster) crashed(pod string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting[pod] = kubetest.Crashed + err.Error()
	delete(c.addrs, pod) // another process may have taken the port meanwhile
}

// started notes the process, and bootstraps the cluster when it is the last one of a new cluster.
func (c *Cluster) started(pod string, s *tikvtest.Store, replicas int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.starting, pod)
	if c.closed {
		c.wg.Go(s.Kill)
		return
	}
	c.stores[pod], c.addrs[pod] = s, s.Addr()
	if c.booting || s.Recovering() || len(c.stores) < replicas {
		return
	}
	c.booting = true
	stores := slices.Collect(maps.Values(c.stores))
	ctx, cancel := context.WithTimeout(context.Background(), bootTimeout)
	c.endBoot = cancel
	c.wg.Go(func() {
		defer cancel()
		if slices.ContainsFunc(stores, func(s *tikvtest.Store) bool { return len(s.Peers()) > 0 }) {
			return // it has data: a restart
		}
		slices.SortFunc(stores, func(a, b *tikvtest.Store) int { return int(a.ID()) - int(b.ID()) })
		var err error
		if c.static > 0 {
			err = tikvtest.BootstrapStatic(ctx, c.static, stores...)
		} else {
			err = tikvtest.Bootstrap(ctx, stores, c.boot)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bootErr, c.booted = err, err == nil
	})
}

func (c *Cluster) stop(pod string) {
	c.mu.Lock()
	s := c.stores[pod]
	delete(c.stores, pod)
	delete(c.starting, pod)
	c.mu.Unlock()
	if s != nil {
		s.Kill()
	}
}

func (c *Cluster) store(pod string) (cluster.StoreID, string, bool, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stores[pod]
	switch {
	case s == nil && c.starting[pod] != "":
		return 0, "", false, c.starting[pod]
	case s == nil:
		return 0, "", false, "not started"
	case gone(s):
		return cluster.StoreID(s.ID()), "", false, fmt.Sprint(kubetest.Crashed, s.Err())
	case c.bootErr != nil:
		return cluster.StoreID(s.ID()), s.Addr(), false, "bootstrap: " + c.bootErr.Error()
	}
	return cluster.StoreID(s.ID()), s.Addr(), true, ""
}

func (c *Cluster) setTiDB(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tidb = n
}

func (c *Cluster) tidbReady() int {
	if c.PD.Recovering() {
		return 0
	}
	if c.static > 0 { // every region is led from the start, by the store that leads it at the end
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.booted {
			return 0
		}
		return c.tidb
	}
	var ranges []cluster.KeyRange
	for _, s := range c.Stores() {
		for _, p := range s.Peers() {
			if p.Serving {
				ranges = append(ranges, cluster.KeyRange{Start: p.Region.GetStartKey(), End: p.Region.GetEndKey()})
			}
		}
	}
	if cluster.Tile(ranges, 1) != nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tidb
}

// close kills the stores and stops PD.
func (c *Cluster) close() {
	c.mu.Lock()
	c.closed = true
	if c.endBoot != nil {
		c.endBoot()
	}
	pods := slices.Collect(maps.Keys(c.stores))
	c.mu.Unlock()
	for _, pod := range pods {
		c.stop(pod)
	}
	c.sql.stop()
	if c.web != nil {
		_ = c.web.Close()
	}
	c.wg.Wait()
	c.http.CloseIdleConnections()
	c.PD.Close()
}
