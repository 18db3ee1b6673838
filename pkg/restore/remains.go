package restore

import (
	"fmt"
)

// The run's keys in Remains.
const (
	remainsCluster = "cluster"
)

// note records that something of the run would remain from now on.
func (r *run) note(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Remains.Set(name, func() string { return text })
}

// noteCluster records that the run may have created the target.
func (r *run) noteCluster() {
	r.note(remainsCluster, "cluster %s, not restored yet: tisnap restore abort %s --storage %s --yes deletes it",
		r.opts.Target, r.opts.Run, r.Store.URL())
}
