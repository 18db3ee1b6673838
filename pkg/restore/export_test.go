package restore

// StepNames are the steps of a plain restore from first to last, both included.
func StepNames(first, last string) []string {
	var names []string
	for _, s := range newRun(Deps{}, Options{}).restoreSteps() {
		if s.Name == first || len(names) > 0 {
			names = append(names, s.Name)
		}
		if s.Name == last {
			return names
		}
	}
	return nil
}
