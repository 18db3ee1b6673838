package backup

// StepNames lists the runbook's steps, for tables that a new step joins by itself.
func StepNames() []string {
	r := &run{}
	r.opts.defaults()
	var names []string
	for _, s := range r.steps() {
		names = append(names, s.Name)
	}
	return names
}
