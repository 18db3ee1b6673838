package tidbtest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Table is a table's schema.
type Table struct {
	ID      int64    `json:"id"`
	Schema  string   `json:"schema"`
	Name    string   `json:"name"`
	Key     string   `json:"key"`     // the integer column that is the handle
	Columns []string `json:"columns"` // the others, all text
	Index   string   `json:"index"`   // the column that has an index; "" for none
}

// Change is what a transaction has to do to keep rows and entries together. A nil value deletes its key.
type Change map[string][]byte

// and adds another change.
func (c Change) and(other Change) Change {
	maps.Copy(c, other)
	return c
}

const (
	schemaPrefix = "mDB:"
	indexID      = 1
	signBit      = 1 << 63
)

// ordered encodes an integer so that bytes sort as numbers do, as TiDB's codec does.
func ordered(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)^signBit) } //nolint:gosec // its bits

func decodeInt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ signBit) } //nolint:gosec // its bits

// RowPrefix is what the keys of the table's rows begin with.
func (t *Table) RowPrefix() []byte { return append(append([]byte{'t'}, ordered(t.ID)...), "_r"...) }

// IndexPrefix is what the keys of the index's entries begin with.
func (t *Table) IndexPrefix() []byte {
	return append(append(append([]byte{'t'}, ordered(t.ID)...), "_i"...), ordered(indexID)...)
}

func (t *Table) rowKey(handle int64) string {
	return string(append(t.RowPrefix(), ordered(handle)...))
}

// entryKey ends the value with a zero byte, which no value has.
func (t *Table) entryKey(value string, handle int64) string {
	return string(append(append(append(t.IndexPrefix(), value...), 0), ordered(handle)...))
}

// decodeEntry is the reverse of entryKey.
func (t *Table) decodeEntry(key []byte) (value string, handle int64, ok bool) {
	rest, found := strings.CutPrefix(string(key), string(t.IndexPrefix()))
	if !found || len(rest) < 9 || rest[len(rest)-9] != 0 {
		return "", 0, false
	}
	return rest[:len(rest)-9], decodeInt([]byte(rest[len(rest)-8:])), true
}

// Create is the change that makes the table.
func (t *Table) Create() (Change, error) {
	body, err := json.Marshal(t)
	return Change{fmt.Sprintf("%s%020d", schemaPrefix, t.ID): body}, err
}

// Put is the change that makes or replaces a row. Old is what is there; nil for nothing.
func (t *Table) Put(handle int64, old, row map[string]string) (Change, error) {
	body, err := json.Marshal(row)
	c := Change{}
	if old != nil {
		c = t.Remove(handle, old)
	}
	c.and(Change{t.rowKey(handle): body})
	if t.Index != "" {
		c[t.entryKey(row[t.Index], handle)] = []byte("0")
	}
	return c, err
}

// Remove is the change that removes a row.
func (t *Table) Remove(handle int64, old map[string]string) Change {
	c := Change{t.rowKey(handle): nil}
	if t.Index != "" {
		c[t.entryKey(old[t.Index], handle)] = nil
	}
	return c
}
