package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/tisnap/tisnap/pkg/failure"
)

// oneLine makes any value from the storage safe to print on one line.
func oneLine(value any) string { return failure.Line(fmt.Sprint(value)) }

// table prints aligned columns as kubectl does; an empty cell is "<none>".
type table struct {
	head []string
	rows [][]string
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if row[i] = oneLine(c); row[i] == "" {
			row[i] = "<none>"
		}
	}
	t.rows = append(t.rows, row)
}

func (t *table) write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{t.head}, t.rows...) {
		if _, err := fmt.Fprintln(tw, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}
