package restore

import (
	"fmt"
)

// The names under which the run says what would remain of it if its process ended.
const (
	remainsCluster = "cluster"
)

// note says from now on that something of the run would remain.
func (r *run) note(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Remains.Set(name, func() string { return text })
}

// noteCluster says that the run may have made the target.
func (r *run) noteCluster() {
	r.note(remainsCluster, "cluster %s, not restored yet: tisnap restore abort %s --storage %s --yes deletes it",
		r.opts.Target, r.opts.Run, r.Store.URL())
}
