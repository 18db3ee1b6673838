package tidbtest

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// result is an answer: nothing, or rows.
type result struct {
	columns []string
	rows    [][]any
}

// sqlError is an error of TiDB.
type sqlError struct {
	number uint16
	text   string
}

func (e *sqlError) Error() string { return e.text }

func refusal(number uint16, format string, args ...any) error {
	return &sqlError{number, fmt.Sprintf(format, args...)}
}

// session is what a connection knows.
type session struct {
	server   *Server
	snapshot uint64 // tidb_snapshot; 0 without
	ts       uint64 // of the transaction; 0 outside one
}

// The statements that are known.
var (
	begins     = regexp.MustCompile(`(?i)^(BEGIN|START TRANSACTION)$`)
	ends       = regexp.MustCompile(`(?i)^(COMMIT|ROLLBACK)$`)
	readOnly   = regexp.MustCompile(`(?i)^(SET (SESSION )?TRANSACTION|START TRANSACTION) READ ONLY$`)
	assigns    = regexp.MustCompile(`(?i)(GLOBAL\s+|@@GLOBAL\.)?([a-z_]+)\s*:?=\s*'?([^',]*)'?`)
	listTables = regexp.MustCompile(`(?i)^SELECT table_schema, table_name FROM information_schema\.tables `)
	onTable    = regexp.MustCompile("(?i)^ADMIN (CHECK|CHECKSUM) TABLE `([^`]+)`\\.`([^`]+)`$")
	writes     = regexp.MustCompile(`(?is)^(WITH\b.*\)\s*)?(INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|TRUNCATE|LOAD)\b`)
)

// run executes one statement.
func (s *session) run(ctx context.Context, statement string) (result, error) {
	text := strings.TrimSuffix(strings.TrimSpace(statement), ";")
	switch {
	case begins.MatchString(text):
		ts, err := s.server.cfg.Source.Now(ctx)
		s.ts = ts
		return result{}, err
	case ends.MatchString(text):
		s.ts = 0
		return result{}, nil
	case readOnly.MatchString(text):
		return result{}, refusal(1235, "function READ ONLY has only noop implementation in tidb now, "+
			"use tidb_enable_noop_functions to enable these functions")
	case strings.HasPrefix(strings.ToUpper(text), "SET "):
		return result{}, s.set(ctx, text[len("SET "):])
	case writes.MatchString(text) && s.snapshot != 0:
		return result{}, refusal(1105, "can not execute write statement when 'tidb_snapshot' is set")
	case strings.EqualFold(text, "SELECT VERSION()"):
		return one("VERSION()", s.server.cfg.Version), nil
	case strings.EqualFold(text, "SELECT @@tidb_current_ts"):
		return one("@@tidb_current_ts", s.ts), nil
	}
	return s.read(ctx, text)
}

func one(column string, value any) result {
	return result{columns: []string{column}, rows: [][]any{{value}}}
}

// set takes tidb_snapshot of the session, and the variables of the cluster.
func (s *session) set(ctx context.Context, assignments string) error {
	for _, m := range assigns.FindAllStringSubmatch(assignments, -1) {
		global, name, value := m[1] != "", strings.ToLower(m[2]), m[3]
		var err error
		switch {
		case name != snapshotVariable:
			err = s.server.setGlobal(ctx, global, name, value)
		case global:
			err = refusal(1228, "Variable '%s' is a SESSION variable and can't be used with SET GLOBAL", name)
		case value == "":
			s.snapshot = 0
		default:
			if s.snapshot, err = strconv.ParseUint(value, 10, 64); err != nil {
				err = refusal(1105, "cannot parse tidb_snapshot %q", value)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const snapshotVariable = "tidb_snapshot"

// view is the cluster as the session sees it.
func (s *session) view(ctx context.Context) (view, error) {
	ts := s.snapshot
	if ts == 0 {
		ts = s.ts
	}
	if ts == 0 {
		var err error
		if ts, err = s.server.cfg.Source.Now(ctx); err != nil {
			return view{}, err
		}
	}
	return view{s.server.cfg.Source, ts}, nil
}

// read executes a statement that reads the cluster.
func (s *session) read(ctx context.Context, text string) (result, error) {
	admin := onTable.FindStringSubmatch(text)
	point := "tidb.Query"
	switch {
	case admin != nil && strings.EqualFold(admin[1], "check"):
		point = "tidb.AdminCheckTable"
	case admin != nil:
		point = "tidb.AdminChecksumTable"
	case listTables.MatchString(text):
		point = "tidb.Tables"
	}
	strike := s.server.cfg.Faults.At(point)
	if err := s.server.suffer(ctx, strike); err != nil {
		return result{}, err
	}
	out, err := s.answer(ctx, text, admin)
	if strike != nil && strike.Position == fault.After {
		return result{}, errLost
	}
	return out, err
}

func (s *session) answer(ctx context.Context, text string, admin []string) (result, error) {
	v, err := s.view(ctx)
	if err != nil {
		return result{}, err
	}
	switch {
	case listTables.MatchString(text):
		return v.list(ctx, text)
	case admin != nil:
		t, err := v.table(ctx, admin[2], admin[3])
		if err != nil {
			return result{}, err
		}
		if strings.EqualFold(admin[1], "check") {
			return result{}, v.check(ctx, t)
		}
		return v.checksum(ctx, t)
	}
	return v.selected(ctx, text)
}
