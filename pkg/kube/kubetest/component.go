package kubetest

import (
	"context"
	"time"
)

// component is PD or TiDB: all its members are started by one call.
type component struct {
	job      *job
	started  bool
	replicas int
	retryAt  time.Time
}

// job is work in a goroutine of its own, so that a slow attachment does not keep the others waiting.
type job struct {
	done chan struct{}
	err  error // to be read after done
}

func (j *job) running() bool {
	if j == nil {
		return false
	}
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// start runs f as a job and wakes the loop when it ends.
func (o *Operator) start(ctx context.Context, f func(context.Context) error) *job {
	j := &job{done: make(chan struct{})}
	o.jobs.Go(func() {
		j.err = f(ctx)
		close(j.done)
		select {
		case o.wake <- struct{}{}:
		default:
		}
	})
	return j
}

func (o *Operator) reconcilePD(ctx context.Context, c *clusterState, spec clusterSpec) {
	o.ensureStatefulSet(spec, "pd", spec.pd)
	if c.pd.running() || c.pd.started && c.pd.replicas == spec.pd {
		o.ensureMembers(spec, "pd", spec.pd, c.pd.started)
		return
	}
	if o.finished(&c.pd, spec, "PD") {
		o.ensureMembers(spec, "pd", spec.pd, true)
		return
	}
	if o.now().Before(c.pd.retryAt) {
		return
	}
	c.pd.replicas = spec.pd
	c.pd.job = o.start(ctx, func(ctx context.Context) error {
		urls, err := o.runtime.StartPD(ctx, spec.name, spec.pd)
		if err == nil {
			c.pdURL = urls // read only after the job is done
		}
		return err
	})
}

func (o *Operator) reconcileTiDB(ctx context.Context, c *clusterState, spec clusterSpec) {
	o.ensureStatefulSet(spec, "tidb", spec.tidb)
	if c.tidb.running() || c.tidb.started && c.tidb.replicas == spec.tidb {
		o.ensureMembers(spec, "tidb", spec.tidb, c.tidb.started && o.runtime.TiDBReady(spec.name) >= spec.tidb)
		return
	}
	if o.finished(&c.tidb, spec, "TiDB") || o.now().Before(c.tidb.retryAt) {
		return
	}
	c.tidb.replicas = spec.tidb
	c.tidb.job = o.start(ctx, func(ctx context.Context) error {
		return o.runtime.StartTiDB(ctx, spec.name, spec.tidb)
	})
}

func (c *component) running() bool { return c.job.running() }

// finished takes the result of a component's job; it returns false if there was none or it failed.
func (o *Operator) finished(c *component, spec clusterSpec, what string) bool {
	if c.job == nil {
		return false
	}
	err := c.job.err
	c.job = nil
	c.started = err == nil
	if err == nil {
		return true
	}
	c.retryAt = o.now().Add(o.cfg.Retry)
	if tc, ok := o.store.get(tidbClusters, spec.name.Namespace, spec.name.Name); ok {
		o.warn(tc, "FailedSync", "start "+what+": "+err.Error())
	}
	return false
}
