package journal

import (
	"encoding/json"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
)

// CopyFacts is what a copy shared and asked for.
type CopyFacts struct {
	// Shares reports that there was an IntentShare, and Shared is what the last one names.
	Shares bool
	Shared []cluster.SnapshotID
	// Asked are the snapshots that it was about to ask for a copy of, Made the last copy that EC2 accepted of each, and
	// Completed the last one that it completed, as far as the run saw that; older versions did not record it.
	Asked           map[cluster.SnapshotID]bool
	Made, Completed map[cluster.SnapshotID]CopiedSnapshot
	// Unclear is why one of these records cannot be read.
	Unclear error
}

// followCopy keeps Facts.Copy.
func (r *reader) followCopy(record *phase.Record) {
	f := &r.Copy
	var err error
	switch {
	case record.Type == phase.RecordIntent && record.Name == IntentShare:
		f.Shares = true
		err = json.Unmarshal(record.Data, &f.Shared)
	case record.Type == phase.RecordIntent && record.Name == IntentCopySnapshots:
		var of []cluster.SnapshotID
		err = json.Unmarshal(record.Data, &of)
		if f.Asked == nil {
			f.Asked = map[cluster.SnapshotID]bool{}
		}
		for _, id := range of {
			f.Asked[id] = true
		}
	case record.Type == phase.RecordResult && record.Name == ResultCopy:
		err = keep(&f.Made, record.Data)
	case record.Type == phase.RecordResult && record.Name == ResultCopied:
		err = keep(&f.Completed, record.Data)
	default: // irrelevant to a copy
	}
	if f.Unclear == nil {
		f.Unclear = err
	}
}

// keep adds a copy by its source.
func keep(to *map[cluster.SnapshotID]CopiedSnapshot, data []byte) error {
	var c CopiedSnapshot
	err := json.Unmarshal(data, &c)
	if *to == nil {
		*to = map[cluster.SnapshotID]CopiedSnapshot{}
	}
	(*to)[c.Snapshot] = c
	return err
}

// ArchiveProcess is what one process wrote of an archive. The data is in the terms of pkg/archive/create.
type ArchiveProcess struct {
	Packs    json.RawMessage   // of its IntentPacks
	Segments []json.RawMessage // of each ResultSegment since
}

// followArchive keeps Facts.Archive.
func (r *reader) followArchive(record *phase.Record) {
	switch {
	case record.Type == phase.RecordIntent && record.Name == IntentPacks:
		r.Archive = append(r.Archive, ArchiveProcess{Packs: record.Data})
	case record.Type == phase.RecordResult && record.Name == ResultSegment && len(r.Archive) > 0:
		last := &r.Archive[len(r.Archive)-1]
		last.Segments = append(last.Segments, record.Data)
	case record.Type == phase.RecordRetryGroup:
		r.Archive = nil // it began from scratch
	default: // irrelevant to an archive
	}
}
