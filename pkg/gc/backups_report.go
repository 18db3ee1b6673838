package gc

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// BackupOutcome is what became of a backup.
type BackupOutcome struct {
	ID      cluster.BackupID `json:"id"`
	Cluster string           `json:"cluster,omitempty"`
	// PD's, which distinguishes clusters of one name
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

func outcomeOf(e catalog.Entry, a Action, reason string) BackupOutcome {
	return BackupOutcome{
		ID: e.ID, Cluster: name(e.Cluster), ClusterID: e.ClusterID, CreatedAt: e.CreatedAt, Tags: e.Tags,
		SizeGiB: e.SizeGiB, Action: a, Reason: reason,
	}
}

// refused notes why the backup is not deleted.
func (b *BackupOutcome) refused(err error) {
	if !failure.Is(err, failure.Conflict) {
		b.left(err)
		return
	}
	b.Action, b.Reason, b.err = ActionInUse, reason(err), err
}

func (b *BackupOutcome) left(err error) { b.Action, b.Error, b.err = ActionLeft, err.Error(), err }

// BackupsReport is the outcome of a Prune or DeleteEach for each backup, by cluster, newest first.
type BackupsReport struct {
	Backups []BackupOutcome `json:"backups"`
}

// Count returns the number of backups with the action.
func (r *BackupsReport) Count(a Action) int {
	n := 0
	for _, b := range r.Backups {
		if b.Action == a {
			n++
		}
	}
	return n
}

// Items returns the backups as the items of a report, for those who count what was deleted.
func (r *BackupsReport) Items() *Report {
	out := &Report{}
	for _, b := range r.Backups {
		out.Items = append(out.Items, Item{Kind: KindBackup, ID: string(b.ID), Action: b.Action})
	}
	return out
}

func (r *BackupsReport) sort() {
	slices.SortFunc(r.Backups, func(a, b BackupOutcome) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.ClusterID, b.ClusterID),
			b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
}

// carryOut deletes what is to be deleted, oldest first, repeating all checks for each. It keeps a backup that came into
// use meanwhile.
func (r *BackupsReport) carryOut(ctx context.Context, d Deps, o DeleteOptions) {
	for i := len(r.Backups) - 1; i >= 0; i-- {
		b := &r.Backups[i]
		if b.Action != ActionDelete {
			continue
		}
		if err := ctx.Err(); err != nil {
			b.left(failure.Annotate(context.Cause(ctx), "delete backup", string(b.ID)))
			continue
		}
		o.Backup = b.ID
		done, err := Delete(ctx, d, o)
		b.Snapshots = deletedSnapshots(done)
		if err != nil {
			b.refused(err)
			continue
		}
		b.Action = ActionDeleted
	}
}

func deletedSnapshots(r *Report) int {
	n := 0
	for _, i := range r.Items {
		if i.Kind == KindSnapshot && i.Action == ActionDeleted {
			n++
		}
	}
	return n
}

// undeleted returns the error about backups that could not be deleted.
func (r *BackupsReport) undeleted() error {
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

// refusals returns the errors of all backups that were not deleted.
func (r *BackupsReport) refusals() error {
	var errs []error
	for _, b := range r.Backups {
		errs = append(errs, b.err)
	}
	return failure.Join(errs...)
}
