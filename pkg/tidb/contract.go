package tidb

import "context"

// Database is a TiDB cluster as its SQL port shows it. Nothing here changes it.
type Database interface {
	// Tables lists the users' tables, by name: no views, and none of the schemas that TiDB keeps for itself.
	Tables(ctx context.Context) ([]Table, error)
	// CheckTable reads all of a table and its indexes. It returns Corrupt if they disagree.
	CheckTable(ctx context.Context, t Table) error
	// Checksum reads all of a table and its indexes.
	Checksum(ctx context.Context, t Table) (Checksum, error)
	// Query runs one statement, at the timestamp at which the client was opened, and returns at most so many rows. A
	// statement that would write is a Usage error, and has done nothing.
	Query(ctx context.Context, statement string, rows int) ([][]Cell, error)
}

// Table names a table.
type Table struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
}

// String is SCHEMA.NAME.
func (t Table) String() string { return t.Schema + "." + t.Name }

// Checksum is TiDB's of a table: of all its keys and values, those of indexes and partitions too, in any order. The
// table's and the indexes' ids are in the keys.
type Checksum struct {
	CRC64XOR uint64 `json:"crc64xor,string"`
	KVs      uint64 `json:"kvs"`
	Bytes    uint64 `json:"bytes"`
}

// Cell is one value of a row, as text.
type Cell struct {
	Text string
	Null bool
}
