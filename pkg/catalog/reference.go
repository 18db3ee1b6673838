package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Latest is the reference to a cluster's newest sealed backup. No backup may have this name.
const Latest = "latest"

// Reference selects the backup that Latest stands for.
type Reference struct {
	Cluster cluster.Name // whose latest backup is meant; zero if the storage has only one cluster
	Before  time.Time    // the backup ts of the latest backup is not after this; zero for no limit
}

// Choose returns the newest sealed backup that a reference to the latest one means. Backups in any other state are
// never chosen. It is NotFound if there is none, and Usage if several clusters have one and none is given.
func (r Reference) Choose(entries []Entry) (*Entry, error) {
	var chosen *Entry
	clusters := map[cluster.Name]bool{}
	for i := range entries {
		e := &entries[i]
		if e.State != StateSealed || r.Cluster != (cluster.Name{}) && e.Cluster != r.Cluster {
			continue
		}
		clusters[e.Cluster] = true
		if !r.Before.IsZero() && e.BackupTS.Time().After(r.Before) {
			continue
		}
		if chosen == nil || e.BackupTS > chosen.BackupTS {
			chosen = e
		}
	}
	if len(clusters) > 1 {
		var names []string
		for name := range clusters {
			names = append(names, name.String())
		}
		slices.Sort(names)
		return nil, failure.New(failure.Usage, "choose the latest backup", "",
			"the storage has backups of %d clusters: %s", len(names), strings.Join(names, ", ")).
			WithHint("choose one with --of, such as --of %s", names[0])
	}
	if chosen == nil {
		return nil, failure.New(failure.NotFound, "choose the latest backup", "", "no sealed backup matches").
			WithHint("see `tisnap list`")
	}
	return chosen, nil
}
