package backup

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// proof is the input of the steps after the release. It is journalled once the cut is proven: a process that resumes
// the run does not hold the cluster again.
type proof struct {
	Source   *preflight.Source                 `json:"source,omitempty"`
	BackupTS cluster.TS                        `json:"backupTS"`
	Sets     map[cluster.StoreID][]cutSnapshot `json:"sets,omitempty"`
	Hold     HoldTimes                         `json:"hold"`
	Started  time.Time                         `json:"started"`
	// Marks are the stored marks; nil without marks, and until the step record stores them. Regions is the number of
	// regions.
	Marks   *manifest.Marks `json:"marks,omitempty"`
	Regions int             `json:"regions,omitempty"`
	// EarlyApply is what is known about replicas ahead of their logs; nil, by an older version, means unproven.
	EarlyApply *manifest.EarlyApply `json:"earlyApply,omitempty"`
	// HeldBy is the run of the other process that held the cluster, if any.
	HeldBy cluster.RunID `json:"heldBy,omitempty"`
}

// cutSnapshot is what a manifest needs to know about a cut snapshot.
type cutSnapshot struct {
	ID        cluster.SnapshotID `json:"id"`
	Volume    cluster.VolumeID   `json:"volume"`
	StartedAt time.Time          `json:"startedAt"`
}

// check fails unless the proof is for the cut at this timestamp: without one no manifest is written or sealed, whatever
// the earlier steps report.
func (p *proof) check(op string, backup cluster.BackupID, ts cluster.TS) error {
	if p.Source == nil || len(p.Sets) == 0 || p.BackupTS == 0 || p.BackupTS != ts {
		return failure.New(failure.Corrupt, op, string(backup), "the cut at backup ts %s is not proven", ts)
	}
	return nil
}

// restore adds the cut sets to made.
func (p *proof) restore(made *sets) {
	for id, snaps := range p.Sets {
		set := make([]ebs.Snapshot, len(snaps))
		for i, s := range snaps {
			set[i] = ebs.Snapshot{ID: s.ID, Volume: s.Volume, StartedAt: s.StartedAt}
		}
		made.put(id, set)
	}
}
