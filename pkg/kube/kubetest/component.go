package kubetest

import (
	"context"
	"fmt"
	"time"
)

// component is PD or TiDB: all its members are started by one call.
type component struct {
	job      *job
	started  bool
	replicas int
	retryAt  time.Time
	servesAt time.Time // since when
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
	if o.tooLong(spec, "pd") {
		return
	}
	if why := o.missingSecret(spec, "pd"); why != "" && !c.pd.started {
		o.failMount(spec, "pd", spec.pd, why)
		return
	}
	if c.pd.running() || c.pd.started && c.pd.replicas == spec.pd {
		o.ensureMembers(spec, "pd", spec.pd, c.pd.started)
		return
	}
	if o.finished(&c.pd, spec, "PD") {
		o.ensureMembers(spec, "pd", spec.pd, true)
		return
	}
	if o.early(c.pd.retryAt) {
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

// maxSetName is the longest name of a StatefulSet that can make pods: their label controller-revision-hash is the
// name and a hash.
const maxSetName = 52

// tooLong reports whether the StatefulSet of a component cannot make pods, and records that in an event.
func (o *Operator) tooLong(spec clusterSpec, component string) bool {
	name := spec.name.Name + "-" + component
	if len(name) <= maxSetName {
		return false
	}
	set, _ := o.store.get(statefulSets, spec.name.Namespace, name)
	o.warn(set, "FailedCreate", fmt.Sprintf(`create Pod %s-0 in StatefulSet %s failed error: Pod %q is invalid: metadata.labels: Invalid value: "%s-5d8f7c9b64": must be no more than 63 bytes`,
		name, name, name+"-0", name))
	return true
}

func (o *Operator) reconcileTiDB(ctx context.Context, c *clusterState, spec clusterSpec) {
	o.ensureStatefulSet(spec, "tidb", spec.tidb)
	if err := o.ensureService(spec); err != nil {
		if tc, ok := o.store.get(tidbClusters, spec.name.Namespace, spec.name.Name); ok {
			o.warn(tc, "FailedSync", err.Error())
		}
		return
	}
	if c.tidb.running() || c.tidb.started && c.tidb.replicas == spec.tidb {
		o.ensureMembers(spec, "tidb", spec.tidb, c.tidb.started && o.runtime.TiDBReady(spec.name) >= spec.tidb)
		return
	}
	if o.finished(&c.tidb, spec, "TiDB") || o.early(c.tidb.retryAt) {
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
		c.servesAt = o.now()
		return true
	}
	c.retryAt = o.now().Add(o.cfg.Retry)
	if tc, ok := o.store.get(tidbClusters, spec.name.Namespace, spec.name.Name); ok {
		o.warn(tc, "FailedSync", "start "+what+": "+err.Error())
	}
	return false
}
