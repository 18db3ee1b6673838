package gc

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// PrunedBackup is a backup and its outcome.
type PrunedBackup struct {
	ID      cluster.BackupID `json:"id"`
	Cluster string           `json:"cluster,omitempty"`
	// PD's: clusters of one name are pruned each by itself
	ClusterID uint64    `json:"clusterID,string,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	Tags      []string  `json:"tags,omitempty"`
	SizeGiB   int64     `json:"sizeGiB,omitempty"`
	Snapshots int       `json:"snapshotsDeleted,omitempty"` // by this run
	Action    Action    `json:"action"`
	Reason    string    `json:"reason"`
	Error     string    `json:"error,omitempty"`

	err error
}

func (b *PrunedBackup) left(err error) { b.Action, b.Error, b.err = ActionLeft, err.Error(), err }

// PruneReport lists every backup of the pruned clusters, by cluster, newest first.
type PruneReport struct {
	Backups []PrunedBackup `json:"backups"`
}

// Count returns the number of backups with the action.
func (r *PruneReport) Count(a Action) int {
	n := 0
	for _, b := range r.Backups {
		if b.Action == a {
			n++
		}
	}
	return n
}

func (r *PruneReport) sort() {
	slices.SortFunc(r.Backups, func(a, b PrunedBackup) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.ClusterID, b.ClusterID),
			b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
}

// undeleted returns the error about backups that could not be deleted.
func (r *PruneReport) undeleted() error {
	var names []string
	var first error
	for _, b := range r.Backups {
		if b.Action == ActionLeft {
			names = append(names, string(b.ID))
			first = cmp.Or(first, b.err)
		}
	}
	if first == nil {
		return nil
	}
	kind := failure.KindOf(first)
	if kind == failure.Unknown {
		kind = failure.Partial
	}
	return failure.New(kind, "prune", "", "%d backups were not deleted (%s): %w", len(names), strings.Join(names, " "),
		first).
		WithHint("run it again; deleted items stay deleted")
}
