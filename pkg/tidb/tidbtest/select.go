package tidbtest

import (
	"cmp"
	"context"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	selects   = regexp.MustCompile("(?is)^SELECT (.+?) FROM `?(\\w+)`?\\.`?(\\w+)`?(?: WHERE `?(\\w+)`?\\s*(=|<|>)\\s*'?([^']*)'?)?$")
	aggregate = regexp.MustCompile(`(?i)^(COUNT|SUM|MIN|MAX)\((\*|\w+)\)$`)
)

// selected executes a SELECT from one table. Rows are in the order of their handles.
func (v view) selected(ctx context.Context, text string) (result, error) {
	m := selects.FindStringSubmatch(text)
	if m == nil {
		return result{}, refusal(1064, "You have an error in your SQL syntax; near %q", text)
	}
	t, err := v.table(ctx, m[2], m[3])
	if err != nil {
		return result{}, err
	}
	byHandle, err := v.rows(ctx, t)
	if err != nil {
		return result{}, err
	}
	var rows []map[string]string
	for _, handle := range slices.Sorted(maps.Keys(byHandle)) {
		row := byHandle[handle]
		row[t.Key] = strconv.FormatInt(handle, 10)
		if m[4] == "" || matches(row[m[4]], m[5], m[6]) {
			rows = append(rows, row)
		}
	}
	var out result
	for column := range strings.SplitSeq(m[1], ",") {
		out.columns = append(out.columns, strings.Trim(strings.TrimSpace(column), "`"))
	}
	if a := aggregate.FindStringSubmatch(out.columns[0]); a != nil {
		out.rows = [][]any{{total(strings.ToUpper(a[1]), a[2], rows)}}
		return out, nil
	}
	for _, column := range out.columns {
		if column != t.Key && !slices.Contains(t.Columns, column) {
			return result{}, refusal(1054, "Unknown column '%s' in 'field list'", column)
		}
	}
	for _, row := range rows {
		var cells []any
		for _, column := range out.columns {
			cells = append(cells, row[column])
		}
		out.rows = append(out.rows, cells)
	}
	return out, nil
}

// compare orders numbers as such, and texts as texts.
func compare(a, b string) int {
	x, err := strconv.ParseInt(a, 10, 64)
	y, err2 := strconv.ParseInt(b, 10, 64)
	if err != nil || err2 != nil {
		return strings.Compare(a, b)
	}
	return cmp.Compare(x, y)
}

func matches(value, operator, to string) bool {
	return compare(value, to) == map[string]int{"=": 0, "<": -1, ">": 1}[operator]
}

// total is an aggregate of a column's values; nil, which is NULL, of none.
func total(of, column string, rows []map[string]string) any {
	if of == "COUNT" {
		return int64(len(rows))
	}
	if len(rows) == 0 {
		return nil
	}
	sum, best := new(big.Int), rows[0][column]
	for _, row := range rows {
		n, _ := new(big.Int).SetString(row[column], 10) // a text counts as 0, as in MySQL
		if n != nil {
			sum.Add(sum, n)
		}
		if c := compare(row[column], best); of == "MIN" && c < 0 || of == "MAX" && c > 0 {
			best = row[column]
		}
	}
	if of == "SUM" {
		return sum.String()
	}
	return best
}
