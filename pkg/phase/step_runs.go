package phase

import "time"

// StepRun is one time that a process did a step, or undid it.
type StepRun struct {
	Step   string
	Undo   bool
	Begin  time.Time
	End    time.Time // zero while it runs
	Failed bool
	Died   bool // its process ended before it did, and another has resumed the run
	Error  string
}

// StepRuns lists, by their begin, all times that a step began, according to a journal's records.
func StepRuns(records []Record) []StepRun {
	var out []StepRun
	for i := range records {
		r := &records[i]
		switch r.Type {
		case RecordBegin, RecordUndo:
			out = append(out, StepRun{Step: r.Step, Undo: r.Type == RecordUndo, Begin: r.Time})
		case RecordDone, RecordFailed, RecordUndone, RecordUndoFail:
			for j := len(out) - 1; j >= 0; j-- {
				if s := &out[j]; s.Step == r.Step && s.End.IsZero() {
					s.End, s.Error = r.Time, r.Error
					s.Failed = r.Type == RecordFailed || r.Type == RecordUndoFail
					break
				}
			}
		case RecordResumed:
			for j := range out {
				if s := &out[j]; s.End.IsZero() {
					s.End, s.Died = records[i-1].Time, true
				}
			}
		case RecordRun, RecordIntent, RecordResult, RecordRetryGroup, RecordEnd: // neither begins nor ends a step
		}
	}
	return out
}
