package restore

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// The names under which the run says what would remain of it if its process ended.
const (
	remainsCluster = "cluster"
	remainsVolumes = "volumes"
)

// note says from now on that something of the run would remain.
func (r *run) note(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.Remains.Set(name, func() string { return text })
}

// noteCluster says that the run may have made the target.
func (r *run) noteCluster() {
	r.note(remainsCluster, "cluster %s, not restored yet: tisnap restore abort %s --storage %s --yes deletes it", r.opts.Target, r.opts.Run, r.Store.URL())
}

// noteVolumes says that the run may have made volumes.
func (r *run) noteVolumes() {
	r.note(remainsVolumes, "up to %d volumes: %s", len(r.volumes), r.removal())
}

// removal says how the run's volumes are found and deleted.
func (r *run) removal() string {
	return fmt.Sprintf("they carry the tag %s=%s, and tisnap gc --storage %s --yes deletes those that nothing uses an hour later (--older-than 0s: at once)",
		ebs.TagRun, r.opts.Run, r.Store.URL())
}
