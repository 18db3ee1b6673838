package backup

// StepNames lists the runbook's steps, for tables that a new step joins by itself.
func StepNames() []string {
	t := &task{}
	t.opts.defaults()
	var names []string
	for _, s := range t.steps() {
		names = append(names, s.Name)
	}
	return names
}
