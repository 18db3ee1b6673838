package resolve

import (
	"fmt"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// servicePrefix begins the names of GC safe points held by runs of tisnap.
const servicePrefix = "tisnap-"

// IsService reports whether a GC safe point of this name belongs to a run of tisnap.
func IsService(name string) bool { return strings.HasPrefix(name, servicePrefix) }

// resumeHint returns how to retry a failed run: what was not kept cannot be resumed.
func (c *Config) resumeHint() string {
	if !c.Kept {
		return "restore again; with --keep-on-failure a run that fails can be resumed"
	}
	return fmt.Sprintf("run: tisnap resolve %s --backup %s; it resumes where this one stopped", c.Cluster, c.Backup)
}

// Done reports whether the whole key space of the cluster was flashed back to the backup ts.
func (p *Progress) Done(clusterID uint64, backupTS cluster.TS) bool {
	return p.suits(clusterID, backupTS) && sweep.NewCoverage(p.Flashed...).Contains(cluster.KeyRange{})
}
