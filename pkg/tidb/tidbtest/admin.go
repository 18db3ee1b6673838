package tidbtest

import (
	"context"
	"hash/crc64"
	"slices"
)

// check compares rows and entries as ADMIN CHECK TABLE does: first how many there are, then each of them.
func (v view) check(ctx context.Context, t *Table) error {
	rows, err := v.rows(ctx, t)
	if err != nil || t.Index == "" {
		return err
	}
	type entry struct {
		value  string
		handle int64
	}
	var entries []entry
	if err := v.source.Scan(ctx, v.ts, t.IndexPrefix(), func(key, _ []byte) error {
		value, handle, ok := t.decodeEntry(key)
		if !ok {
			return refusal(8133, "data inconsistency in table: %s, index: %s, %q is no entry", t.Name, t.Index, key)
		}
		entries = append(entries, entry{value, handle})
		return nil
	}); err != nil {
		return err
	}
	for _, e := range entries {
		row, there := rows[e.handle]
		if !there {
			return refusal(8223, "data inconsistency in table: %s, index: %s, handle: %d, index-values:%q != record-values:\"\"",
				t.Name, t.Index, e.handle, e.value)
		}
		if row[t.Index] != e.value {
			return refusal(8223, "data inconsistency in table: %s, index: %s, handle: %d, index-values:%q != record-values:%q",
				t.Name, t.Index, e.handle, e.value, row[t.Index])
		}
	}
	if len(entries) != len(rows) {
		return refusal(8133, "data inconsistency in table: %s, index: %s, index-count:%d != record-count:%d", t.Name, t.Index,
			len(entries), len(rows))
	}
	return nil
}

// checksum is TiDB's: the XOR of the CRC64s of all keys and values, of rows and entries.
func (v view) checksum(ctx context.Context, t *Table) (result, error) {
	table := crc64.MakeTable(crc64.ECMA)
	var sum, kvs, bytes uint64
	for _, prefix := range [][]byte{t.RowPrefix(), t.IndexPrefix()} {
		if err := v.source.Scan(ctx, v.ts, prefix, func(key, value []byte) error {
			sum ^= crc64.Checksum(slices.Concat(key, value), table)
			kvs, bytes = kvs+1, bytes+uint64(len(key)+len(value))
			return nil
		}); err != nil {
			return result{}, err
		}
	}
	return result{
		columns: []string{"Db_name", "Table_name", "Checksum_crc64_xor", "Total_kvs", "Total_bytes"},
		rows:    [][]any{{t.Schema, t.Name, sum, kvs, bytes}},
	}, nil
}
