package testbed

import (
	"bytes"
	"encoding/json"
	"path"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// objectPoints names the points of an object that is written. "journal.begin.cut" is the write of the record that the
// step cut begins, "journal.end" that of a run's last one, "object.seal.json" that of a seal.
func objectPoints(key string, body []byte) []string {
	if at := strings.Index(key, manifest.RunsPrefix); at >= 0 {
		if _, seq, ok := manifest.SplitJournalKey(key[at:]); ok && seq == 0 {
			return []string{"journal.compacted"}
		} else if ok {
			return recordPoints(body)
		}
	}
	for folder, point := range map[string]string{
		manifest.LocksPrefix: "object.lock", manifest.ResolvePrefix: "object.progress", manifest.DeletionsPrefix: "object.deletions",
		manifest.ReportsPrefix: "object.report", manifest.ProbesPrefix: "object.probe",
		format.LeasePrefix: "object.lease", format.CondemnedPrefix: "object.condemned", format.PackPrefix: "object.pack", format.SegmentPrefix: "object.segment", format.ArchivePrefix: "object.archive",
	} {
		if strings.Contains(key, folder) {
			return []string{point}
		}
	}
	return []string{"object." + path.Base(key)}
}

func recordPoints(body []byte) []string {
	var points []string
	for dec := json.NewDecoder(bytes.NewReader(body)); ; {
		var r phase.Record
		if dec.Decode(&r) != nil {
			return points
		}
		point := "journal." + string(r.Type)
		if r.Step != "" {
			point += "." + r.Step
		}
		points = append(points, point)
	}
}
