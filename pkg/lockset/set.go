package lockset

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// maxCalls is how many snapshots are dealt with at the same time. EC2 has no conditional call: a process that is
// suspended between reading a lock and replacing it may make one shorter that is longer by then. So there is one such
// moment at most.
const maxCalls = 1

// EBS is the part of EC2 that is used.
type EBS interface {
	ebs.Locker
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.Snapshot, error)
	SnapshotLocks(ctx context.Context, ids []cluster.SnapshotID) ([]ebs.SnapshotLock, error)
	Region() string
}

// Action is what becomes of a snapshot.
type Action string

// The actions.
const (
	ActionKeep     Action = "keep"     // it is as it should be
	ActionLock     Action = "lock"     // would be locked, or for longer: the plan
	ActionLocked   Action = "locked"   // is locked as asked
	ActionUnlock   Action = "unlock"   // would be unlocked: the plan
	ActionUnlocked Action = "unlocked" // has no lock
	ActionFailed   Action = "failed"   // Error has the reason
	ActionMissing  Action = "missing"  // EC2 has no such snapshot
)

// Item is a snapshot with its lock: after the call, or before it in a plan.
type Item struct {
	Store    cluster.StoreID    `json:"store"`
	Role     cluster.Role       `json:"role"`
	Snapshot cluster.SnapshotID `json:"snapshot"`
	Action   Action             `json:"action"`
	// Mode is governance, compliance or compliance-cooloff; "" without a lock that holds.
	Mode        string    `json:"mode,omitempty"`
	ExpiresAt   time.Time `json:"expiresAt,omitzero"`
	CooledOffAt time.Time `json:"cooledOffAt,omitzero"`
	Error       string    `json:"error,omitempty"`

	err error
}

func (i *Item) is(l ebs.SnapshotLock) {
	i.Mode, i.ExpiresAt, i.CooledOffAt = "", time.Time{}, time.Time{}
	if l.Snapshot != "" && l.Holds() {
		i.Mode, i.ExpiresAt, i.CooledOffAt = l.Mode, l.ExpiresAt, l.CooledOffAt
	}
}

func (i *Item) failed(err error) { i.Action, i.Error, i.err = ActionFailed, err.Error(), err }

// Report is the outcome for each snapshot, in the manifest's order.
type Report struct {
	Items []Item `json:"items"`
	// Final is set if what is asked for cannot be undone from its first moment on.
	Final bool `json:"final,omitempty"`
	// Objects are the backup's in the storage; zero after an unlock.
	Objects Objects `json:"objects,omitzero"`
}

// Count returns the number of snapshots with the action.
func (r *Report) Count(a Action) int {
	n := 0
	for i := range r.Items {
		if r.Items[i].Action == a {
			n++
		}
	}
	return n
}

// Read returns the locks of a backup's snapshots, each with the action keep, or missing.
func Read(ctx context.Context, e EBS, m *manifest.Manifest) (*Report, error) {
	if m.Region != e.Region() {
		return nil, failure.New(failure.Usage, "read locks", string(m.ID), "its snapshots are in %s", m.Region).
			WithHint("use --region %s", m.Region)
	}
	found, err := e.DescribeSnapshots(ctx, m.SnapshotIDs())
	if err != nil {
		return nil, failure.Annotate(err, "describe snapshots", string(m.ID))
	}
	locks, err := e.SnapshotLocks(ctx, m.SnapshotIDs())
	if err != nil {
		return nil, failure.Annotate(err, "read locks of snapshots", string(m.ID))
	}
	there, of := map[cluster.SnapshotID]bool{}, map[cluster.SnapshotID]ebs.SnapshotLock{}
	for _, s := range found {
		there[s.ID] = s.State.Outcome() != ebs.SnapshotFailed
	}
	for _, l := range locks {
		of[l.Snapshot] = l
	}
	r := &Report{Items: make([]Item, 0, len(m.Snapshots))}
	for _, s := range m.Snapshots {
		it := Item{Store: s.Store, Role: s.Role, Snapshot: s.ID, Action: ActionKeep}
		if !there[s.ID] {
			it.Action = ActionMissing
		}
		it.is(of[s.ID])
		r.Items = append(r.Items, it)
	}
	return r, nil
}

// each calls EC2 for every snapshot with the action, all of them whatever fails.
func (r *Report) each(ctx context.Context, a Action, call func(context.Context, *Item) error) {
	var todo []*Item
	for i := range r.Items {
		if r.Items[i].Action == a {
			todo = append(todo, &r.Items[i])
		}
	}
	err := parallel.Each(ctx, maxCalls, todo, func(ctx context.Context, _ int, it *Item) error {
		if err := call(ctx, it); err != nil {
			it.failed(err)
		}
		return nil
	})
	for _, it := range todo {
		if it.Action == a { // not begun, or it panicked
			it.failed(cmp.Or(err, context.Cause(ctx)))
		}
	}
}

// failures is the error about the snapshots that a call could not change: Partial if others were.
func (r *Report) failures(op string, id cluster.BackupID, done Action) error {
	var errs []error
	var names []string
	for i := range r.Items {
		if it := &r.Items[i]; it.err != nil {
			errs, names = append(errs, it.err), append(names, string(it.Snapshot))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.Sort(names)
	err := failure.Join(errs...)
	kind := failure.KindOf(errs[0])
	if r.Count(done) > 0 || r.Count(ActionKeep) > 0 {
		kind = failure.Partial
	}
	out := failure.New(kind, op, string(id), "%d of %d snapshots are not %s (%s): %w", len(errs), len(r.Items), done,
		failure.List(names), err)
	if hint := failure.HintOf(err); hint != "" {
		return out.WithHint("%s; then run the same command again: it finishes the set", hint)
	}
	return out.WithHint("run the same command again: it finishes the set")
}
