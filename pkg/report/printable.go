package report

import (
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// printable is the report with every text passed through as, because other systems may have put anything into it. The
// error keeps its lines and is not passed through as: each format quotes it in its own way.
func (r *Report) printable(as func(string) string) *Report {
	out := *r
	out.Operation, out.Run, out.Backup = Operation(as(string(r.Operation))), cluster.RunID(
		as(string(r.Run))), cluster.BackupID(as(string(r.Backup)))
	out.Cluster = cluster.Name{Namespace: as(r.Cluster.Namespace), Name: as(r.Cluster.Name)}
	out.Outcome = phase.Outcome(as(string(r.Outcome)))
	out.Error = cleanLines(r.Error)
	out.Processes = slices.Clone(r.Processes)
	for i := range out.Processes {
		out.Processes[i].Step = as(out.Processes[i].Step)
	}
	out.Warnings, out.Checks = each(r.Warnings, as), each(r.Checks, as)
	out.Phases = slices.Clone(r.Phases)
	for i := range out.Phases {
		p := &out.Phases[i]
		p.Name, p.Outcome, p.Steps = as(p.Name), phase.Outcome(as(string(p.Outcome))), slices.Clone(p.Steps)
		for j := range p.Steps {
			s := &p.Steps[j]
			s.Name, s.Outcome, s.Parts = as(s.Name), phase.Outcome(as(string(s.Outcome))), partsAs(s.Parts, as)
		}
	}
	if r.Hold != nil {
		h := *r.Hold
		h.Parts, h.Failed = partsAs(h.Parts, as), slices.Clone(h.Failed)
		for i := range h.Failed {
			h.Failed[i].Step, h.Failed[i].Error = as(h.Failed[i].Step), as(
				strings.ReplaceAll(h.Failed[i].Error, "\n", "; "))
		}
		out.Hold = &h
	}
	if r.Changed != nil {
		c := *r.Changed
		c.Since = cluster.BackupID(as(string(c.Since)))
		out.Changed = &c
	}
	out.Archived, out.Copied = r.Archived.printable(as), r.Copied.printable(as)
	out.Drilled = r.Drilled.printable(as)
	if r.VolumeSettings != nil {
		v := *r.VolumeSettings
		v.Type = as(v.Type)
		out.VolumeSettings = &v
	}
	return &out
}

func partsAs(parts []phase.Part, as func(string) string) []phase.Part {
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Name = as(parts[i].Name)
	}
	return parts
}

func each(texts []string, as func(string) string) []string {
	out := make([]string, 0, len(texts))
	for _, t := range texts {
		out = append(out, as(t))
	}
	return out
}

// cleanLines cleans each line of a text.
func cleanLines(text string) string {
	return strings.Join(each(strings.Split(text, "\n"), failure.Line), "\n")
}
