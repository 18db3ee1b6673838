package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// addProcess adds the process that ends with this report to those of a resumed run.
func (r *Report) addProcess(timings phase.Timings) {
	if len(r.Processes) == 0 {
		return
	}
	before := r.Processes[len(r.Processes)-1]
	own := phase.Process{Start: r.Started, End: r.Finished, GapSeconds: max(0, r.Started.Sub(before.End).Seconds())}
	for _, p := range timings {
		for _, s := range p.Steps {
			switch s.Outcome {
			case phase.Skipped:
			case phase.Failed:
				own.Step = s.Name
				own.Seconds += s.Seconds
			default:
				own.Seconds += s.Seconds
			}
		}
	}
	r.Processes = append(slices.Clone(r.Processes), own)
	r.WallSeconds = max(0, r.Finished.Sub(r.Processes[0].Start).Seconds())
}

// adopted is the time of the steps that earlier processes did, at most the time of these processes, because steps
// overlap.
func adopted(timings phase.Timings, before []phase.Process) float64 {
	var sum, took float64
	for _, p := range before {
		took += p.End.Sub(p.Start).Seconds()
	}
	for _, p := range timings {
		for _, s := range p.Steps {
			if s.Outcome == phase.Skipped {
				sum += s.Seconds
			}
		}
	}
	return min(sum, took)
}

// InSteps is the time of all processes in their steps, by their monotonic clocks, including repeated steps; 0 for a run
// of one process. It lacks the step in which a process was killed, whose time is unknown.
func (r *Report) InSteps() float64 {
	var sum float64
	for _, p := range r.Processes {
		sum += p.Seconds
	}
	return sum
}

// Gaps is the wall time between processes.
func (r *Report) Gaps() float64 {
	var sum float64
	for _, p := range r.Processes {
		sum += p.GapSeconds
	}
	return sum
}

// Resumed summarizes the processes of a resumed run; "" for a run of one process.
func (r *Report) Resumed() string {
	if len(r.Processes) == 0 {
		return ""
	}
	return fmt.Sprintf("resumed: %d processes, %s in steps, %s from the first start to the end, %s of it between them",
		len(r.Processes), Duration(r.InSteps()), Duration(r.WallSeconds), Duration(r.Gaps()))
}

// processLines has a line for each process of a resumed run.
func (r *Report) processLines() []string {
	if len(r.Processes) == 0 {
		return nil
	}
	out := []string{r.Resumed()}
	for i, p := range r.Processes {
		line := fmt.Sprintf("process %d: %s to %s, %s in steps", i+1, p.Start.UTC().Format(time.RFC3339),
			p.End.UTC().Format(time.RFC3339), Duration(p.Seconds))
		if i > 0 {
			line += ", after a gap of " + Duration(p.GapSeconds)
		}
		if p.Step != "" {
			line += ", ended in " + p.Step
		}
		out = append(out, line)
	}
	return out
}
