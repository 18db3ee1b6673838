package journal

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// Cage is the data of IntentCage and ResultCage: the namespace in which a drill's cluster is.
type Cage struct {
	Namespace string `json:"namespace"`
	UID       string `json:"uid,omitempty"`
	// Outside is the namespace of the probes that must not reach it.
	Outside string `json:"outside,omitempty"`
}

// DrillTarget is the data of IntentTarget: the cluster that a drill restores, and the run of that restore.
type DrillTarget struct {
	Run     cluster.RunID `json:"run"`
	Cluster cluster.Name  `json:"cluster"`
}

// DrillFacts is what a drill made.
type DrillFacts struct {
	// Cage is the last one that it was about to make; its UID is "" if the run died before it recorded that.
	Cage Cage
	// Targets are those of all its restores, also of those before it began from scratch.
	Targets []DrillTarget
	// Checks is the data of the last ResultChecks, since it began from scratch.
	Checks json.RawMessage
	// Unclear is why one of these records cannot be read.
	Unclear error
}

// followDrill keeps Facts.Drill.
func (r *reader) followDrill(record *phase.Record) {
	f := &r.Drill
	var err error
	switch {
	case record.Type == phase.RecordIntent && record.Name == IntentCage,
		record.Type == phase.RecordResult && record.Name == ResultCage:
		f.Cage = Cage{}
		err = json.Unmarshal(record.Data, &f.Cage)
	case record.Type == phase.RecordIntent && record.Name == IntentTarget:
		var t DrillTarget
		err = json.Unmarshal(record.Data, &t)
		f.Targets = append(f.Targets, t)
	case record.Type == phase.RecordResult && record.Name == ResultChecks:
		f.Checks = record.Data
	case record.Type == phase.RecordRetryGroup:
		f.Checks = nil
	default: // irrelevant to a drill
	}
	if f.Unclear == nil {
		f.Unclear = err
	}
}
