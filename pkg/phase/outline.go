package phase

// Outline is a step's static description.
type Outline struct {
	Phase, Name string
	Undo        bool // it has one
	ReadOnly    bool
	NoWait      bool // it may begin before its begin record is durable
}

// Outlines lists the steps of a run, in order: for tests that are made from them.
func Outlines(steps []Step) []Outline {
	out := make([]Outline, 0, len(steps))
	for i := range steps {
		s := &steps[i]
		out = append(out, Outline{
			Phase: s.Phase, Name: s.Name, Undo: s.Undo.Do != nil, ReadOnly: s.ReadOnly, NoWait: s.Record.NoWait,
		})
	}
	return out
}
