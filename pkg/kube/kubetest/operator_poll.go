package kubetest

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

const (
	shortestPoll = 20 * time.Millisecond
	longestPoll  = 200 * time.Millisecond
	// settle is the real time that changes are collected before they are handled together.
	settle = 4 * time.Millisecond

	// Where nothing has changed for so many polls they become rare, and after many more of them only processes are looked at,
	// except for one poll of a few: to find everything as it was takes much more time than that.
	idleAfter   = 10
	restAfter   = 25
	restedPolls = 5
)

// Run reconciles until ctx ends and then waits for what it has begun. It leaves processes running: the
// owner of the Runtime stops them.
func (o *Operator) Run(ctx context.Context) {
	defer o.jobs.Wait()
	poll := min(max(o.cfg.Clock.Real(o.cfg.Poll), shortestPoll), longestPoll)
	var seen map[process]string
	for idle := 0; ctx.Err() == nil; idle++ {
		changed := o.objects.Changed()
		if found := o.processes(); !maps.Equal(found, seen) || o.expects(idle) {
			o.due = time.Time{}
			o.reconcile(ctx)
			seen = found
		}
		every := poll
		if idle >= idleAfter {
			every = longestPoll
		}
		if !o.due.IsZero() {
			every = min(every, max(o.cfg.Clock.Real(o.due.Sub(o.now())), settle))
		}
		if o.pause(ctx, every, changed) {
			idle = -1
		}
	}
}

// expects reports whether there may be something to do after so many polls without a change of the objects: at the first,
// when a time has come that the last step named, and now and then for what no event reports, such as a volume that another
// has detached.
func (o *Operator) expects(idle int) bool {
	switch {
	case idle == 0, !o.due.IsZero() && !o.now().Before(o.due):
		return true
	case idle < idleAfter:
		return false
	}
	return idle < restAfter || idle%restedPolls == 0
}

// process is how one is doing: a pod of TiKV, or all of TiDB.
type process struct {
	cluster cluster.Name
	pod     string
}

// processes is how all processes of the clusters are doing, to be compared.
func (o *Operator) processes() map[process]string {
	found := map[process]string{}
	for name, c := range o.clusters {
		found[process{cluster: name}] = strconv.Itoa(o.runtime.TiDBReady(name))
		for pod := range c.pods {
			id, _, ready, reason := o.runtime.TiKV(name, pod)
			found[process{name, pod}] = fmt.Sprint(id, ready, reason)
		}
	}
	return found
}

// pause waits for the next poll, or for a change or a finished job and then until things settle. It reports whether it was
// one of those.
func (o *Operator) pause(ctx context.Context, poll time.Duration, changed <-chan struct{}) bool {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return false
	case <-changed:
	case <-o.wake:
	}
	timer.Reset(settle)
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return true
}
