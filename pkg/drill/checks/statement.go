package checks

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tidb"
)

// Statement is one of the user's, with what its answer has to be: exactly one of Expect, Empty and Within.
type Statement struct {
	Name string `json:"name"`
	SQL  string `json:"sql"`
	// Expect is the only value of the only row.
	Expect *string `json:"expect,omitempty"`
	// Empty wants no row: the statement selects what must not be there.
	Empty bool `json:"empty,omitempty"`
	// Within wants one number, the Unix time of the newest row of a table to which something is always written. It must
	// not be older than the backup's timestamp by more than this, and not later than it: a canary.
	Within string `json:"within,omitempty"`

	within time.Duration
}

// maxRows is as many rows as it takes to compare an answer.
const maxRows = 2

// File is what a user wants checked.
type File struct {
	Statements []Statement
	Sums       map[tidb.Table]tidb.Checksum
}

// sum is an answer of the source's to ADMIN CHECKSUM TABLE.
type sum struct {
	Table string `json:"table"` // SCHEMA.NAME
	CRC64 uint64 `json:"crc64xor"`
	KVs   uint64 `json:"kvs"`
	Bytes uint64 `json:"bytes"`
}

// ReadFile reads YAML with a list of statements, "checks", a list of checksums, "sums", or both. Unknown fields are
// refused.
func ReadFile(text []byte, name string) (*File, error) {
	const op = "read checks"
	var file struct {
		Checks []Statement `json:"checks"`
		Sums   []sum       `json:"sums"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, name)
	}
	if len(file.Checks)+len(file.Sums) == 0 {
		return nil, failure.New(failure.Usage, op, name, "it has none below \"checks\" or \"sums\"")
	}
	out, seen := &File{Statements: file.Checks, Sums: map[tidb.Table]tidb.Checksum{}}, map[string]bool{}
	for i := range file.Checks {
		s := &file.Checks[i]
		if err := s.validate(); err != nil || seen[s.Name] {
			return nil, failure.New(failure.Usage, op, name, "check %d (%q): %w", i+1, s.Name, orTwice(err))
		}
		seen[s.Name] = true
	}
	for i, s := range file.Sums {
		schema, table, _ := strings.Cut(s.Table, ".")
		of := tidb.Table{Schema: schema, Name: table}
		if _, twice := out.Sums[of]; twice || schema == "" || table == "" || s.KVs == 0 {
			return nil, failure.New(failure.Usage, op, name,
				"sum %d (%q): want a table as SCHEMA.NAME, once, with the answer to ADMIN CHECKSUM TABLE", i+1, s.Table)
		}
		out.Sums[of] = tidb.Checksum{CRC64XOR: s.CRC64, KVs: s.KVs, Bytes: s.Bytes}
	}
	return out, nil
}

func orTwice(err error) error {
	if err == nil {
		return fmt.Errorf("its name is used twice")
	}
	return err
}

func (s *Statement) validate() error {
	ways := 0
	for _, has := range []bool{s.Expect != nil, s.Empty, s.Within != ""} {
		if has {
			ways++
		}
	}
	switch {
	case s.Name == "" || s.SQL == "":
		return fmt.Errorf("want a name and sql")
	case ways != 1:
		return fmt.Errorf("want exactly one of expect, empty and within")
	case s.Within == "":
		return nil
	}
	var err error
	if s.within, err = time.ParseDuration(s.Within); err != nil || s.within <= 0 {
		return fmt.Errorf("within %q: want a duration such as 5m", s.Within)
	}
	return nil
}

// mismatch returns why an answer is not as it should be; "" if it is. It does not repeat what the rows hold.
func (s *Statement) mismatch(rows [][]tidb.Cell, backup cluster.TS) string {
	if s.Empty {
		if len(rows) > 0 {
			return "it selects rows that must not be there"
		}
		return ""
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return "its answer is not one value"
	}
	cell := rows[0][0]
	if s.Expect != nil {
		if cell.Null || cell.Text != *s.Expect {
			return "its answer is not what is expected"
		}
		return ""
	}
	seconds, err := strconv.ParseFloat(cell.Text, 64)
	if cell.Null || err != nil {
		return "its answer is not a Unix time"
	}
	newest := time.UnixMicro(int64(seconds * 1e6))
	switch age := backup.Time().Sub(newest); {
	case age > s.within:
		return fmt.Sprintf("the newest row is %s older than the backup's timestamp, at most %s are allowed",
			age.Round(time.Second), s.within)
	case age < 0:
		return fmt.Sprintf("the newest row is %s later than the backup's timestamp", -age.Round(time.Millisecond))
	}
	return ""
}
