package tidbtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Source is the cluster that is read.
type Source interface {
	// Now is a fresh timestamp.
	Now(ctx context.Context) (uint64, error)
	// Scan visits the keys that begin with a prefix, in order, as they were at ts.
	Scan(ctx context.Context, ts uint64, prefix []byte, visit func(key, value []byte) error) error
}

// view is the cluster at one timestamp.
type view struct {
	source Source
	ts     uint64
}

// tables are those that exist, by id.
func (v view) tables(ctx context.Context) ([]Table, error) {
	var out []Table
	err := v.source.Scan(ctx, v.ts, []byte(schemaPrefix), func(key, value []byte) error {
		var t Table
		if err := json.Unmarshal(value, &t); err != nil {
			return fmt.Errorf("schema at %q: %w", key, err)
		}
		out = append(out, t)
		return nil
	})
	return out, err
}

// inQuotes matches what a list of tables leaves out.
var inQuotes = regexp.MustCompile(`'([^']*)'`)

// list are the tables' names in order, without those of schemas that the statement names.
func (v view) list(ctx context.Context, statement string) (result, error) {
	all, err := v.tables(ctx)
	out := result{columns: []string{"table_schema", "table_name"}}
	slices.SortFunc(all, func(a, b Table) int {
		return cmp.Or(strings.Compare(a.Schema, b.Schema), strings.Compare(a.Name, b.Name))
	})
	left := inQuotes.FindAllString(statement, -1)
	for _, t := range all {
		if !slices.Contains(left, "'"+t.Schema+"'") {
			out.rows = append(out.rows, []any{t.Schema, t.Name})
		}
	}
	return out, err
}

// table finds one by its name.
func (v view) table(ctx context.Context, schema, name string) (*Table, error) {
	all, err := v.tables(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Schema == schema && all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, refusal(1146, "Table '%s.%s' doesn't exist", schema, name)
}

// rows are a table's, by handle.
func (v view) rows(ctx context.Context, t *Table) (map[int64]map[string]string, error) {
	out, prefix := map[int64]map[string]string{}, t.RowPrefix()
	err := v.source.Scan(ctx, v.ts, prefix, func(key, value []byte) error {
		row := map[string]string{}
		if err := json.Unmarshal(value, &row); err != nil || len(key) != len(prefix)+8 {
			return fmt.Errorf("row at %q: %w", key, err)
		}
		out[decodeInt(key[len(prefix):])] = row
		return nil
	})
	return out, err
}
