package tidb

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// class is what an error of TiDB means to a caller.
type class struct {
	kind failure.Kind
	hint string
}

const (
	hintReach     = "check that TiDB is running and reachable at its SQL port"
	hintGrant     = "grant the user SELECT on all tables, and SUPER for ADMIN statements"
	hintUser      = "check the user and the password"
	hintStatement = "correct the statement: it must read, and nothing else"
	hintData      = "keep the backup and the copy, and restore another backup"
)

// numbers is the table of TiDB's error numbers. One that is missing is Unknown. Source: pkg/errno/errcode.go of
// pingcap/tidb, and https://docs.pingcap.com/tidb/stable/error-codes.
var numbers = map[uint16]class{
	8003: {failure.Corrupt, hintData}, // an index has another number of entries than the table has rows
	8133: {failure.Corrupt, hintData}, // as 8003, found by a read
	8134: {failure.Corrupt, hintData}, // an entry has another value than its row
	8223: {failure.Corrupt, hintData}, // as 8134, found by ADMIN CHECK

	1044: {failure.Denied, hintGrant},
	1045: {failure.Denied, hintUser},
	1142: {failure.Denied, hintGrant},
	1227: {failure.Denied, hintGrant},
	8121: {failure.Denied, hintGrant},

	1049: {failure.NotFound, ""}, // schema
	1146: {failure.NotFound, ""}, // table

	1054: {failure.Usage, hintStatement}, // column
	1064: {failure.Usage, hintStatement},
	1235: {failure.Usage, hintStatement}, // not implemented, or a word that TiDB ignores

	1317: {failure.Limited, ""}, // interrupted
	3024: {failure.Limited, ""}, // longer than max_execution_time
	8028: {failure.Limited, ""}, // the schema changed meanwhile
	8175: {failure.Limited, "raise tidb_mem_quota_query, or check less"},
	9001: {failure.Limited, ""}, // PD
	9002: {failure.Limited, ""}, // TiKV
	9003: {failure.Limited, ""}, // TiKV is busy
	9004: {failure.Limited, ""}, // locks
	9005: {failure.Limited, ""}, // a region is unavailable

	9006: {failure.Unready, "keep GC from removing what the check reads: SET GLOBAL tidb_gc_enable = OFF"},
}

// texts has TiDB's messages of number 1105, that of any error.
var texts = []struct {
	text string
	class
}{
	{"can not execute write statement when 'tidb_snapshot' is set", class{failure.Usage, hintStatement}},
}

// translate classifies an error of the driver or of the server. A context that ended is left as it is.
func translate(ctx context.Context, err error, op, target string) error {
	var own *failure.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return failure.Annotate(err, op, target)
	case errors.Is(err, context.DeadlineExceeded):
		wait.ForDeadline(ctx)
	}
	if ctx.Err() != nil {
		return failure.Annotate(ctx.Err(), op, target)
	}
	c := classify(err)
	if c.kind == failure.Corrupt {
		err = withoutValues(err)
	}
	return &failure.Error{Op: op, Target: target, Kind: c.kind, Hint: c.hint, Err: failure.Remote(err)}
}

// valuesBegin is where TiDB's text of an inconsistency begins to show what a row holds. Reports are read by more people
// than the data are.
const valuesBegin = ", handle:"

func withoutValues(err error) error {
	if text, _, found := strings.Cut(err.Error(), valuesBegin); found {
		return errors.New(text + " (the row is not shown)")
	}
	return err
}

func classify(err error) class {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		for _, row := range texts {
			if strings.Contains(server.Message, row.text) {
				return row.class
			}
		}
		return numbers[server.Number]
	}
	var network net.Error
	for _, lost := range []error{
		driver.ErrBadConn, mysql.ErrInvalidConn, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
	} {
		if errors.Is(err, lost) {
			return class{failure.Limited, hintReach}
		}
	}
	if errors.As(err, &network) {
		return class{failure.Limited, hintReach}
	}
	return class{}
}
