package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/tisnap/tisnap/pkg/failure"
)

// view is how tables are shown.
type view struct {
	wide  bool // all columns, however many the terminal has
	local bool // times in the local zone instead of UTC
}

// narrow is the default width of a terminal.
const narrow = 80

// heading is the heading of a column of times.
func (v view) heading(what string) string {
	if v.local {
		return what + " (LOCAL)"
	}
	return what + " (UTC)"
}

// in is the time in the zone of the view.
func (v view) in(t time.Time) time.Time {
	if v.local {
		return t.Local()
	}
	return t.UTC()
}

// cell is a time below a heading, which has the zone.
func (v view) cell(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return v.in(t).Format(time.DateTime)
}

// text is a time with its zone.
func (v view) text(t time.Time) string { return v.in(t).Format("2006-01-02 15:04:05 MST") }

// oneLine makes any value from the storage safe to print on one line.
func oneLine(value any) string { return failure.Line(fmt.Sprint(value)) }

// table prints aligned columns as kubectl does; an empty cell is a dash.
type table struct {
	head []string
	rows [][]string
	drop []string // columns that go until the table is narrow: empty ones first, in this order
	more []string // columns of a wide table only
	cut  bool     // the last column is cut to what the others leave of a terminal
}

func newTable(head ...string) *table { return &table{head: head} }

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		if row[i] = oneLine(c); row[i] == "" {
			row[i] = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// write prints the table. Unless the view is wide, columns go until it fits a terminal.
func (t *table) write(w io.Writer, v view) error {
	all := append([][]string{t.head}, t.rows...)
	shown := make([]int, 0, len(t.head))
	for i, column := range t.head {
		if v.wide || !slices.Contains(t.more, column) {
			shown = append(shown, i)
		}
	}
	for _, column := range append(slices.DeleteFunc(slices.Clone(t.drop), t.filled), t.drop...) {
		if v.wide || width(all, shown) <= narrow {
			break
		}
		shown = slices.DeleteFunc(shown, func(i int) bool { return t.head[i] == column })
	}
	room := narrow - gap - width(all, shown[:len(shown)-1])
	tw := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, row := range all {
		cells := make([]string, len(shown))
		for i, column := range shown {
			cells[i] = row[column]
		}
		if last := len(cells) - 1; t.cut && !v.wide {
			cells[last] = cutTo(cells[last], room)
		}
		if _, err := fmt.Fprintln(tw, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return tw.Flush()
}

// filled reports whether a column has anything but dashes.
func (t *table) filled(column string) bool {
	at := slices.Index(t.head, column)
	return slices.ContainsFunc(t.rows, func(row []string) bool { return row[at] != "-" })
}

func cutTo(cell string, room int) string {
	if runes := []rune(cell); len(runes) > room {
		return string(runes[:max(room-1, 0)]) + "…"
	}
	return cell
}

// gap is the space between two columns.
const gap = 2

// width is that of the widest row.
func width(rows [][]string, columns []int) int {
	sum := gap * (len(columns) - 1)
	for _, column := range columns {
		most := 0
		for _, row := range rows {
			most = max(most, utf8.RuneCountInString(row[column]))
		}
		sum += most
	}
	return sum
}
