package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// proof is what the steps after the release work with. It is journalled when the cut is proven: a process that
// continues the run does not hold the cluster again.
type proof struct {
	Source   *preflight.Source                 `json:"source,omitempty"`
	BackupTS cluster.TS                        `json:"backupTS"`
	Sets     map[cluster.StoreID][]cutSnapshot `json:"sets,omitempty"`
	Hold     HoldTimes                         `json:"hold"`
	Started  time.Time                         `json:"started"`
	// Marks are those that are stored; nil without, and until the step record stores them. Regions is how many there were.
	Marks   *manifest.Marks `json:"marks,omitempty"`
	Regions int             `json:"regions,omitempty"`
	// EarlyApply is what is known of replicas that are ahead of their logs; nil of an older version is unproven.
	EarlyApply *manifest.EarlyApply `json:"earlyApply,omitempty"`
	// HeldBy is the run of the other process that held the cluster, if one did.
	HeldBy cluster.RunID `json:"heldBy,omitempty"`
}

// cutSnapshot is what a manifest needs to know of a snapshot that was cut.
type cutSnapshot struct {
	ID        cluster.SnapshotID `json:"id"`
	Volume    cluster.VolumeID   `json:"volume"`
	StartedAt time.Time          `json:"startedAt"`
}

// check fails unless the proof is of the cut at this timestamp: without one no manifest is written and none is sealed, whatever
// the steps before it say.
func (p *proof) check(op string, backup cluster.BackupID, ts cluster.TS) error {
	if p.Source == nil || len(p.Sets) == 0 || p.BackupTS == 0 || p.BackupTS != ts {
		return failure.New(failure.Corrupt, op, string(backup), "the cut at backup ts %s is not proven", ts)
	}
	return nil
}

// prove notes what the steps after the release need.
func (r *run) prove(ctx context.Context, s *phase.Scope) {
	hold := r.result.Hold
	hold.Parts, hold.Stores = r.hold.Parts(), r.storeParts()
	r.proof = proof{
		Source: r.source, BackupTS: r.backupTS, Hold: hold, Started: r.created, Sets: map[cluster.StoreID][]cutSnapshot{},
	}
	for id, snaps := range r.sets.byStoreNow() {
		for _, s := range snaps {
			r.proof.Sets[id] = append(r.proof.Sets[id], cutSnapshot{ID: s.ID, Volume: s.Volume, StartedAt: s.StartedAt})
		}
	}
	if r.opts.OtherHolds {
		r.proof.HeldBy, r.proof.EarlyApply = r.hold.Run(), r.early.verdict
	} else {
		r.proof.EarlyApply = r.proveEarlyApply(ctx, s)
	}
	r.proof.Marks, r.proof.Regions = r.keepMarks(ctx, s), r.result.Regions
}

// adoptProof continues with the cut that an earlier process has proven.
func (r *run) adoptProof(ctx context.Context, s *phase.Scope) error {
	if r.proof.Source == nil || r.proof.BackupTS == 0 || len(r.proof.Sets) == 0 {
		return failure.New(failure.Corrupt, "resume backup", string(r.opts.Backup), "its journal says that the cut is proven, and not what was cut").
			WithHint("undo it: tisnap runs abort %s", r.opts.Run)
	}
	r.source, r.backupTS, r.result.Hold, r.created = r.proof.Source, r.proof.BackupTS, r.proof.Hold, r.proof.Started
	for id, snaps := range r.proof.Sets {
		set := make([]ebs.Snapshot, len(snaps))
		for i, s := range snaps {
			set[i] = ebs.Snapshot{ID: s.ID, Volume: s.Volume, StartedAt: s.StartedAt}
		}
		r.sets.put(id, set)
	}
	r.retag(ctx, s)
	r.adoptMarks(ctx, s)
	r.noteAttempt()
	r.announce(s)
	s.Note("the cut at backup ts %s is proven: the cluster is not held again", r.backupTS)
	return nil
}
