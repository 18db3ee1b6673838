package report

import (
	"fmt"

	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/drill/checks"
)

// Drilled is how a drill went: three results, and what was checked.
type Drilled struct {
	Restore  drill.State    `json:"restore"`
	Checks   drill.State    `json:"checks"`
	TearDown drill.State    `json:"tearDown"`
	Left     string         `json:"left,omitempty"` // what could not be removed
	Found    *checks.Result `json:"found,omitempty"`
}

// Facts are lines, each as a term and a text; none for nil.
func (d *Drilled) Facts() [][2]string {
	if d == nil {
		return nil
	}
	out := [][2]string{{"restore", string(d.Restore)}, {"checks", string(d.Checks)}, {"tear-down", string(d.TearDown)}}
	if d.Left != "" {
		out = append(out, [2]string{"left", Name(d.Left)})
	}
	if d.Found == nil {
		return out
	}
	passed := 0
	for _, c := range d.Found.Checks {
		if c.Outcome == checks.Passed {
			passed++
			continue
		}
		out = append(out, [2]string{string(c.Outcome), Name(fmt.Sprintf("%s %s: %s", c.Kind, c.Name, c.Why))})
	}
	return append(out, [2]string{"checked", fmt.Sprintf("%d of %d checks passed, of %d tables; seed %d", passed,
		len(d.Found.Checks), d.Found.Tables, d.Found.Seed)})
}

// printable makes its texts safe by as.
func (d *Drilled) printable(as func(string) string) *Drilled {
	if d == nil {
		return nil
	}
	out := *d
	out.Left = as(out.Left)
	if out.Found != nil {
		found := *out.Found
		found.Why, found.Checks = as(found.Why), nil
		for _, c := range out.Found.Checks {
			c.Name, c.Why = as(c.Name), as(c.Why)
			found.Checks = append(found.Checks, c)
		}
		out.Found = &found
	}
	return &out
}
