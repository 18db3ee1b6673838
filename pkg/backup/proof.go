package backup

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
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
	// Marks are those that are stored; nil without, and until the step record stores them. Regions is how many there
	// were.
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

// check fails unless the proof is of the cut at this timestamp: without one no manifest is written and none is sealed,
// whatever the steps before it say.
func (p *proof) check(op string, backup cluster.BackupID, ts cluster.TS) error {
	if p.Source == nil || len(p.Sets) == 0 || p.BackupTS == 0 || p.BackupTS != ts {
		return failure.New(failure.Corrupt, op, string(backup), "the cut at backup ts %s is not proven", ts)
	}
	return nil
}

// restore puts the sets that were cut into made.
func (p *proof) restore(made *sets) {
	for id, snaps := range p.Sets {
		set := make([]ebs.Snapshot, len(snaps))
		for i, s := range snaps {
			set[i] = ebs.Snapshot{ID: s.ID, Volume: s.Volume, StartedAt: s.StartedAt}
		}
		made.put(id, set)
	}
}
