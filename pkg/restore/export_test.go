package restore

import "time"

// PollEvery changes how often other systems are asked, for all tests: it is called before they run.
func PollEvery(d time.Duration) { pollInterval = d }

// StepNames are the steps of a plain restore from first to last, both included.
func StepNames(first, last string) []string {
	var names []string
	for _, s := range newRun(Deps{}, Options{}, byRun).restoreSteps() {
		if s.Name == first || len(names) > 0 {
			names = append(names, s.Name)
		}
		if s.Name == last {
			return names
		}
	}
	return nil
}

// UndoDeadline is how long the undo of a step of a restore may take.
func UndoDeadline(step string, opts Options) time.Duration {
	for _, s := range newRun(Deps{}, opts, byRun).restoreSteps() {
		if s.Name == step {
			return s.Undo.Deadline
		}
	}
	return 0
}
