package crash

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// journalOfDead is the journal of the run whose process was killed, found by its lock; nil for a process that was killed
// without one, and for a command that has no journal.
func (s *scene) journalOfDead(ctx context.Context) (*phase.History, error) {
	lock, _, err := runlock.Read(ctx, s.store, s.locked())
	if failure.Is(err, failure.NotFound) || err == nil && lock.Released || s.run.steps() == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := phase.ReadHistory(ctx, journal.NewStoreJournal(s.store, manifest.JournalPrefix(lock.Owner.Run)))
	if err != nil || len(h.Records) == 0 {
		return nil, err
	}
	return h, nil
}

// reportsAttempts proves that the report of a run that was resumed has both processes and the gap between them, its total
// across both, and the time of each step that was done before the kill. dead is the journal at the kill; nil proves nothing.
func reportsAttempts(r *report.Report, dead *phase.History) error {
	if dead == nil {
		return nil
	}
	before := dead.Processes()[0]
	switch run := dead.Records[0].Run; {
	case r == nil:
		return fmt.Errorf("run %s has no report", run)
	case r.Run != run:
		return fmt.Errorf("the report is of run %s, and run %s was killed", r.Run, run)
	case len(r.Processes) != 2:
		return fmt.Errorf("the report has %d processes, and not the one that was killed and the next one", len(r.Processes))
	}
	first, next := r.Processes[0], r.Processes[1]
	gap := next.Start.Sub(first.End).Seconds()
	across := r.Finished.Sub(first.Start).Seconds()
	switch {
	case !first.Start.Equal(before.Start) || first.End.Before(before.End): // a last record may have come after the kill
		return fmt.Errorf("the report has the first process from %s to %s, and its journal from %s to %s", first.Start, first.End, before.Start, before.End)
	case gap <= 0 || !near(next.GapSeconds, gap):
		return fmt.Errorf("the report has a gap of %g s between its processes, which is %g s", next.GapSeconds, gap)
	case !near(r.WallSeconds, across):
		return fmt.Errorf("the report has %g s across its processes, and not %g s", r.WallSeconds, across)
	}
	return keepsTimes(r, dead)
}

// keepsTimes proves that each step that was done before the kill is in the report: with its time of then, if it was not
// done again.
func keepsTimes(r *report.Report, dead *phase.History) error {
	took := map[string]float64{}
	for _, record := range dead.Records {
		if record.Type == phase.RecordDone && dead.Done(record.Step) {
			took[record.Step] = record.Seconds
		}
	}
	for _, p := range r.Phases {
		for _, step := range p.Steps {
			seconds, done := took[step.Name]
			if !done || step.Outcome == phase.Failed {
				continue
			}
			if step.Outcome == phase.Skipped && step.Seconds != seconds {
				return fmt.Errorf("the report has %g s for step %s, which took %g s before the kill", step.Seconds, step.Name, seconds)
			}
			delete(took, step.Name)
		}
	}
	if len(took) > 0 {
		return fmt.Errorf("the report lacks steps that were done before the kill: %v", took)
	}
	return nil
}

// near allows for what rounding takes away.
func near(a, b float64) bool { return a-b < 0.01 && b-a < 0.01 }
