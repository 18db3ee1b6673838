package restore

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// earlier is what the journal has about the run's earlier processes.
type earlier struct {
	journal.RestoreFacts
	journal.ResolveFacts
	keep  bool // a failed run keeps what it made
	bound bool // claims of the target may be bound to the run's volumes
	// tikvMayRun means that they may have started TiKV.
	tikvMayRun bool
	// discarded means that what is left of them is undone, whatever the user wants kept.
	discarded   bool
	snapshotsGo bool // the snapshots of an archive may be deleted, since the cluster serves
}

func readEarlier(h *phase.History, keep bool) earlier {
	f := journal.ReadFacts(h.Records)
	return earlier{
		RestoreFacts: f.Restore, ResolveFacts: f.Resolve,
		keep: keep, bound: h.Began(journal.StepBindVolumes),
		tikvMayRun: h.Began(stepStartTiKV), snapshotsGo: h.Began(journal.StepDeleteSnapshots),
	}
}

// discard lets what is left of them be undone, before the run starts over.
func (e *earlier) discard() { e.discarded = true }

// volumes returns what they did about volumes.
func (e *earlier) volumes() volumes.Earlier {
	return volumes.Earlier{Epoch: e.VolumesEpoch, Restarts: e.Restarts}
}

// regionsDone returns what this process, or else an earlier one that finished the data, did with the regions.
func (r *run) regionsDone() journal.ResolvedRegions {
	s := r.resolver.Stats()
	if s.Unchanged+s.Flashed == 0 {
		return r.earlier.Regions()
	}
	return journal.ResolvedRegions{
		Total: s.Regions, Unchanged: s.Unchanged, Flashed: s.Flashed, Checked: s.Checked, SavedSeconds: s.SavedSeconds,
	}
}

// uidOf returns a TidbCluster's UID; "" if it has none.
func uidOf(tc kube.TidbCluster) string {
	var object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(tc.Object, &object) // an object from the API server has one
	return object.Metadata.UID
}
