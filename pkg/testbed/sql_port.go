package testbed

import (
	"context"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/pkg/tidb/tidbtest"
)

// sqlPortOfPods is where TiDB serves in its pod. Here all pods of a cluster are one server, on a port of its own.
const sqlPortOfPods = 4000

// sqlPort is the SQL port of a cluster's TiDB servers. It implements tidbtest.Source by a client of the cluster, which is
// made when it is first needed.
type sqlPort struct {
	addresses func() []string // of PD
	faults    *fault.Plan

	mu     sync.Mutex
	server *tidbtest.Server
	keys   *workload.Cluster
}

// start serves, unless it does.
func (p *sqlPort) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		return nil
	}
	server, err := tidbtest.Start(tidbtest.Config{Source: p, Faults: p.faults})
	p.server = server
	return err
}

// stop ends the server and its client.
func (p *sqlPort) stop() {
	p.mu.Lock()
	server := p.server
	p.server = nil
	p.mu.Unlock()
	if server != nil {
		server.Close() // no session connects after it
	}
	p.mu.Lock()
	keys := p.keys
	p.keys = nil
	p.mu.Unlock()
	if keys != nil {
		_ = keys.Close() // it only read
	}
}

// connect returns the client.
func (p *sqlPort) connect(ctx context.Context) (*workload.Cluster, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys == nil {
		keys, err := workload.Connect(ctx, p.addresses())
		if err != nil {
			return nil, err
		}
		p.keys = keys
	}
	return p.keys, nil
}

// Now implements tidbtest.Source.
func (p *sqlPort) Now(ctx context.Context) (uint64, error) {
	keys, err := p.connect(ctx)
	if err != nil {
		return 0, err
	}
	ts, err := keys.Now(ctx)
	return uint64(ts), err
}

// Scan implements tidbtest.Source.
func (p *sqlPort) Scan(ctx context.Context, ts uint64, prefix []byte, visit func(key, value []byte) error) error {
	keys, err := p.connect(ctx)
	if err != nil {
		return err
	}
	return keys.Scan(ctx, cluster.TS(ts), prefix, visit)
}

// SQL is the address of the cluster's SQL port; "" while no TiDB server runs.
func (c *Cluster) SQL() string {
	c.sql.mu.Lock()
	defer c.sql.mu.Unlock()
	if c.sql.server == nil {
		return ""
	}
	return c.sql.server.Addr()
}
