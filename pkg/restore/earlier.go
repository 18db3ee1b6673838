package restore

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
)

// givenTarget is a target that somebody else made for the restore. It is journalled.
type givenTarget struct {
	UID string `json:"uid,omitempty"` // of the TidbCluster; "" if the run made the target
}

// earlier is what the journal says of the processes of a run that came before this one.
type earlier struct {
	keep  bool // a failed run keeps what it made
	made  bool // they made the target
	bound bool // claims of the target may be bound to the run's volumes
	given givenTarget
	// fast is what they enabled fast snapshot restore for, and did not disable; nil if they did not come to that.
	fast *journal.FastRestore
	// epoch is that of the process that asked for the volumes first; 0 if none did. Who asks again has to ask for the same.
	epoch int64
	// lastEpoch is the highest of theirs.
	lastEpoch int64
	// restarts is how often the run was undone and begun again.
	restarts int
	// left is PD's id of the cluster that they took out of recovery mode, as its data were resolved; 0 for none.
	left    uint64
	regions journal.ResolvedRegions // of that cluster
}

func readEarlier(h *phase.History, keep bool) earlier {
	e := earlier{keep: keep, bound: h.Began(journal.StepBindVolumes), lastEpoch: h.Epoch()}
	for _, record := range h.Records {
		switch {
		case record.Type == phase.RecordDone && record.Step == journal.StepCreateCluster:
			e.given = givenTarget{}
			e.made = json.Unmarshal(record.Data, &e.given) == nil && e.given.UID == "" // older versions noted nothing
		case record.Type == phase.RecordUndone && record.Step == journal.StepCreateCluster:
			e.made, e.given = false, givenTarget{}
		case record.Type == phase.RecordIntent && record.Name == journal.IntentCreateVolumes && e.epoch == 0:
			e.epoch = record.Epoch
		case record.Type == phase.RecordIntent && record.Name == journal.IntentFastRestore:
			e.fast = &journal.FastRestore{}
			_ = json.Unmarshal(record.Data, e.fast) // gc ends what is not known here
		case record.Type == phase.RecordResult && record.Name == journal.ResultFastRestoreEnded:
			e.fast = &journal.FastRestore{}
		case record.Type == phase.RecordIntent && record.Name == journal.IntentLeaveRecovery,
			record.Type == phase.RecordResult && record.Name == journal.ResultLeftRecovery:
			var left journal.LeftRecovery
			_ = json.Unmarshal(record.Data, &left) // then the resolver's progress has to say it
			e.left, e.regions = left.ClusterID, left.Regions
		case record.Type == phase.RecordRetryGroup:
			e.left, e.regions, e.epoch = 0, journal.ResolvedRegions{}, 0
			e.restarts++
		default: // says nothing that is needed here
		}
	}
	return e
}

// earlierFast is what earlier processes enabled fast snapshot restore for, by zone: their intent names snapshots and
// zones each with each, and a snapshot is restored in one zone.
func (r *run) earlierFast() map[cluster.Zone][]cluster.SnapshotID {
	if r.earlier.fast == nil {
		return nil
	}
	asked := map[pair]bool{}
	for _, id := range r.earlier.fast.Snapshots {
		for _, zone := range r.earlier.fast.Zones {
			asked[pair{id, zone}] = true
		}
	}
	mine := map[cluster.Zone][]cluster.SnapshotID{}
	for zone, ids := range r.fastPairs() {
		for _, id := range ids {
			if asked[pair{id, zone}] {
				mine[zone] = append(mine[zone], id)
			}
		}
	}
	return mine
}

// regionsDone is what this process, or else an earlier one that finished the data, did with the regions.
func (r *run) regionsDone() journal.ResolvedRegions {
	s := r.resolver.Stats()
	if s.Unchanged+s.Flashed == 0 {
		return r.earlier.regions
	}
	return journal.ResolvedRegions{Total: s.Regions, Unchanged: s.Unchanged, Flashed: s.Flashed, Checked: s.Checked, SavedSeconds: s.SavedSeconds}
}

// uidOf is the UID of a TidbCluster; "" if it has none.
func uidOf(tc kube.TidbCluster) string {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(tc.Object, &object) // an object that the API server sent has one
	return object.Metadata.UID
}
