package gc

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Kind is what an item is.
type Kind string

// The kinds, in the order in which they are shown.
const (
	KindSnapshot    Kind = "snapshot"
	KindVolume      Kind = "volume"
	KindFastRestore Kind = "fast-restore"
	KindBackup      Kind = "backup"
	KindCluster     Kind = "cluster"           // a TidbCluster
	KindClaim       Kind = "claim"             // a PersistentVolumeClaim
	KindPV          Kind = "persistent-volume" // goes with its claim; its EBS volume is an item of its own
	KindJournal     Kind = "journal"           // of a run that ended long ago
	KindDrill       Kind = "drill"             // all that a dead drill left
	KindReport      Kind = "report"            // of a run that ended long ago, and whose backup is gone
)

// Action is an item's outcome.
type Action string

// The actions.
const (
	ActionDelete  Action = "delete"  // would be deleted: the plan, and a dry run
	ActionDeleted Action = "deleted" // is gone
	ActionLeft    Action = "left"    // should have been deleted but still exists; Error has the reason
	ActionKeep    Action = "keep"    // in doubt; Reason explains
	ActionInUse   Action = "in-use"  // named by a sealed backup, attached, or of a live run
)

// Item is one resource found.
type Item struct {
	Kind    Kind             `json:"kind"`
	ID      string           `json:"id"`
	Zone    cluster.Zone     `json:"zone,omitempty"`
	Run     cluster.RunID    `json:"run,omitempty"`
	Backup  cluster.BackupID `json:"backup,omitempty"`
	Cluster string           `json:"cluster,omitempty"`
	SizeGiB int64            `json:"sizeGiB,omitempty"`
	Action  Action           `json:"action"`
	Reason  string           `json:"reason"`
	Error   string           `json:"error,omitempty"`

	err   error
	stray bool // it has no run tag
}

// Missing is a sealed backup with missing snapshots.
type Missing struct {
	Backup    cluster.BackupID     `json:"backup"`
	Snapshots []cluster.SnapshotID `json:"snapshots"`
}

// Report lists what was found and its outcome.
type Report struct {
	Items []Item `json:"items"`
	// Elsewhere counts the snapshots and volumes of runs whose journals are not in this storage.
	Elsewhere int `json:"elsewhere"`
	// Missing are sealed backups that can no longer be restored.
	Missing []Missing `json:"missing"`
	// Kubernetes is why it is unknown what restores left there; "" if known or irrelevant.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Compacted counts the journals of ended runs that were compacted into one object.
	Compacted int `json:"compactedJournals,omitempty"`
	// Nothing is true if nothing was found of what was requested.
	Nothing bool `json:"nothing,omitempty"`
	// Near are backups with names similar to one that was not found: it may be misspelt.
	Near []string `json:"-"`
}

// Count returns the number of items with the action.
func (r *Report) Count(a Action) int {
	n := 0
	for _, i := range r.Items {
		if i.Action == a {
			n++
		}
	}
	return n
}

func (r *Report) sort() {
	order := []Kind{KindSnapshot, KindCluster, KindClaim, KindPV, KindVolume, KindFastRestore, KindBackup, KindJournal,
		KindReport}
	slices.SortFunc(r.Items, func(a, b Item) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(a.Run, b.Run), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Zone, b.Zone),
		)
	})
}

// undeleted returns the error that names everything a sweep could not delete.
func (r *Report) undeleted() error {
	var names []string
	var first error
	for _, i := range r.Items {
		if i.Action == ActionLeft {
			names = append(names, i.ID)
			if first == nil {
				first = i.err
			}
		}
	}
	if first == nil {
		return nil
	}
	kind := failure.KindOf(first)
	if kind == failure.Unknown || kind == failure.Conflict {
		kind = failure.Partial
	}
	return failure.New(kind, "delete", "", "%d were not deleted (%s): %w", len(names), strings.Join(names, " "), first).
		WithHint("run it again; deleted items stay deleted")
}

// broken returns the error about sealed backups whose snapshots are gone.
func (r *Report) broken() error {
	if len(r.Missing) == 0 {
		return nil
	}
	var names []string
	n := 0
	for _, m := range r.Missing {
		names = append(names, string(m.Backup))
		n += len(m.Snapshots)
	}
	return failure.New(failure.Corrupt, "check backups", strings.Join(names, ", "),
		"%d snapshots that they name are gone", n).
		WithHint("take a new backup, and remove broken ones with: tisnap delete %s", names[0])
}
