package crash

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// Table is the matrix as text: a row a step, a column a position, and in it how many of its cells went well.
func Table(outcomes []Outcome) string {
	type key struct {
		run  Run
		step string
	}
	type count struct{ right, all int }
	var order []key
	cells := map[key]map[Position]count{}
	for _, o := range outcomes {
		k := key{o.Cell.Run, o.Cell.Step}
		if !slices.Contains(order, k) {
			order, cells[k] = append(order, k), map[Position]count{}
		}
		c := cells[k][o.Cell.Position]
		c.all++
		if o.Err == nil {
			c.right++
		}
		cells[k][o.Cell.Position] = c
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "run\tstep")
	for _, p := range Positions() {
		fmt.Fprintf(t, "\t%s", p)
	}
	fmt.Fprintln(t)
	for _, k := range order {
		fmt.Fprintf(t, "%s\t%s", k.run, k.step)
		for _, p := range Positions() {
			text := "-"
			if c := cells[k][p]; c.all > 0 {
				text = fmt.Sprintf("%d/%d", c.right, c.all)
			}
			fmt.Fprintf(t, "\t%s", text)
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush() // a strings.Builder takes everything
	return b.String()
}
