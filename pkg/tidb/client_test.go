package tidb_test

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tidb"
	"github.com/tisnap/tisnap/pkg/tidb/tidbtest"
)

var bank = tidb.Table{Schema: "bank", Name: "accounts"}

func TestTables_AreTheUsers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tables, err := l.client.Tables(within(t))
	require.NoError(t, err)
	require.Equal(t, []tidb.Table{bank}, tables)
	require.Contains(t, l.client.Version(), "TiDB")
}

func TestCheckTable_RowsAndEntriesDisagree_Corrupt(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		damage  tidbtest.Change
		message string
	}{
		"a row is lost":         {only(t, 1, "bob", "_r", nil), "data inconsistency in table: accounts, index: owner"},
		"an entry is lost":      {only(t, 1, "bob", "_i", nil), "index-count:2 != record-count:3"},
		"a row is an older one": {only(t, 1, "bob", "_r", []byte(`{"owner":"old-owner","balance":"1"}`)), "index: owner"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			require.NoError(t, l.client.CheckTable(within(t), bank))
			l.data.Write(row.damage)
			err := l.client.CheckTable(within(t), bank)
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, row.message)
			require.NotContains(t, err.Error(), "bob", "what rows hold is not in reports")
			require.NotContains(t, err.Error(), "old-owner")
		})
	}
}

// only is the change of the row, or of the entry, alone.
func only(t *testing.T, id int64, owner, part string, value []byte) tidbtest.Change {
	t.Helper()
	out := tidbtest.Change{}
	for key := range accounts.Remove(id, row(owner, "")) {
		if key[9:11] == part {
			out[key] = value
		}
	}
	require.Len(t, out, 1)
	return out
}

func TestChecksum_ChangesWithTheData(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first, err := l.client.Checksum(within(t), bank)
	require.NoError(t, err)
	require.Equal(t, uint64(6), first.KVs)
	same, err := l.client.Checksum(within(t), bank)
	require.NoError(t, err)
	require.Equal(t, first, same)
	l.put(t, 0, row("ann", "100"), row("ann", "101"))
	other, err := l.client.Checksum(within(t), bank)
	require.NoError(t, err)
	require.Equal(t, first.KVs, other.KVs)
	require.NotEqual(t, first.CRC64XOR, other.CRC64XOR)
}

// What is read is of one timestamp, however long the checks take.
func TestQuery_ReadsWhenTheClientWasOpened(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ask := func(c *tidb.Client) string {
		rows, err := c.Query(within(t), "SELECT SUM(balance) FROM bank.accounts", 2)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		return rows[0][0].Text
	}
	require.Equal(t, "300", ask(l.client))
	l.put(t, 0, row("ann", "100"), row("ann", "7"))
	require.Equal(t, "300", ask(l.client))
	require.Equal(t, "207", ask(l.open(t)))
	rows, err := l.client.Query(within(t), "SELECT owner FROM bank.accounts", 2)
	require.NoError(t, err)
	require.Len(t, rows, 2, "no more rows than are asked for")
	rows, err = l.client.Query(within(t), "SELECT MAX(balance) FROM bank.accounts WHERE owner = 'absent'", 2)
	require.NoError(t, err)
	require.Equal(t, [][]tidb.Cell{{{Null: true}}}, rows)
}

// TestQuery_Writes_Refused: TiDB itself refuses what writes, in any session that a statement runs in.
func TestQuery_Writes_Refused(t *testing.T) { //nolint:tparallel // the parts share a client
	t.Parallel()
	l := newLab(t)
	for _, statement := range []string{
		"DELETE FROM bank.accounts", "SET tidb_snapshot = ''", "/*! SET tidb_snapshot = '' */", "SELECT 1 /*T! , 2 */",
		"SELECT owner FROM bank.accounts INTO OUTFILE '/tmp/x'", "GRANT ALL ON *.* TO x", "EXPLAIN ANALYZE DELETE FROM bank.accounts",
		"",
	} {
		t.Run(statement, func(t *testing.T) {
			_, err := l.client.Query(within(t), statement, 1)
			require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
			require.NotEmpty(t, failure.HintOf(err))
			require.NotContains(t, l.server.Statements(), statement)
		})
	}
	// One that our own check lets through, TiDB refuses.
	_, err := l.client.Query(within(t), "WITH x AS (TABLE y) DELETE FROM bank.accounts", 1)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "can not execute write statement")
	require.Empty(t, l.sent("READ ONLY"), "TiDB has no transactions that only read")
}

// A copy of a cluster is checked as it was: TTL would delete rows of it, and ANALYZE read all of it.
func TestRest_TurnsOffWhatWorksByItself(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.client.Rest(within(t)))
	require.Equal(t, map[string]string{
		"tidb_ttl_job_enable": "OFF", "tidb_enable_auto_analyze": "OFF", "tidb_gc_enable": "ON",
	}, l.server.Globals(), "GC is held by PD: off, it would stay off")
}

func TestRest_OneIsRefused_TheOtherIsOff(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tidb.SetGlobal", Position: fault.Before, Code: "1227"}))
	err := l.client.Rest(within(t))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "tidb_ttl_job_enable")
	require.Equal(t, "OFF", l.server.Globals()["tidb_enable_auto_analyze"])
}

// The stand-in takes no variable that TiDB does not have, so that a misspelt one is found.
func TestSet_AsTiDBRefuses(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]uint16{
		"SET GLOBAL tidb_ttl_job_enabled = OFF": 1193, "SET ttl = 1": 1193, "SET tidb_ttl_job_enable = OFF": 1229,
		"SET GLOBAL tidb_snapshot = '1'": 1228, "SET GLOBAL tidb_ttl_job_enable = 'maybe'": 1231,
		"SET @@global.tidb_ttl_job_enable = 0": 0, "SET GLOBAL tidb_ttl_job_enable = OFF, tidb_snapshot = ''": 0,
	} {
		t.Run(statement, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			conf := mysql.NewConfig()
			conf.Net, conf.Addr, conf.User, conf.Passwd = "tcp", l.server.Addr(), "root", "secret-word"
			connector, err := mysql.NewConnector(conf)
			require.NoError(t, err)
			db := sql.OpenDB(connector)
			defer db.Close()
			_, err = db.ExecContext(within(t), statement)
			if want == 0 {
				require.NoError(t, err)
				require.Equal(t, "OFF", l.server.Globals()["tidb_ttl_job_enable"])
				return
			}
			var refused *mysql.MySQLError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, want, refused.Number)
			require.Equal(t, "ON", l.server.Globals()["tidb_ttl_job_enable"])
		})
	}
}

func TestErrors_HaveHints(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		rule fault.Rule
		want failure.Kind
	}{
		"a region has no leader": {fault.Rule{Position: fault.Before, Code: "9005"}, failure.Limited},
		"no privilege":           {fault.Rule{Position: fault.Before, Code: "1142"}, failure.Denied},
		"GC was faster":          {fault.Rule{Position: fault.Before, Code: "9006"}, failure.Unready},
		"unknown":                {fault.Rule{Position: fault.Before, Code: "4711"}, failure.Unknown},
		"the answer is lost":     {fault.Rule{Position: fault.After}, failure.Limited},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			row.rule.Point, row.rule.Times = "tidb.AdminCheckTable", 3 // database/sql tries a lost connection again
			require.NoError(t, l.faults.Add(row.rule))
			err := l.client.CheckTable(within(t), bank)
			require.Equal(t, row.want, failure.KindOf(err), "%v", err)
		})
	}
	l := newLab(t)
	require.Equal(t, failure.NotFound, failure.KindOf(l.client.CheckTable(within(t), tidb.Table{Schema: "bank", Name: "none"})))
}

// A server that does not answer delays no caller beyond its deadline.
func TestCheckTable_Hangs_EndsWithTheContext(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tidb.AdminCheckTable", Position: fault.Stall}))
	ctx, cancel := context.WithTimeout(within(t), 100*time.Millisecond)
	defer cancel()
	err := l.client.CheckTable(ctx, bank)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, l.client.CheckTable(within(t), bank))
}

func TestOpen_Refused(t *testing.T) {
	t.Parallel()
	other, err := tidbtest.Start(tidbtest.Config{Source: &tidbtest.Memory{}, Version: "8.4.0"})
	require.NoError(t, err)
	t.Cleanup(other.Close)
	_, err = tidb.Open(within(t), tidb.Config{Address: other.Addr()})
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "it is no TiDB but 8.4.0")

	blank, err := tidbtest.Start(tidbtest.Config{Source: &tidbtest.Memory{}})
	require.NoError(t, err)
	t.Cleanup(blank.Close)
	_, err = tidb.Open(within(t), tidb.Config{Address: blank.Addr()})
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "a transaction of it has no timestamp")

	l := newLab(t)
	_, err = tidb.Open(within(t), tidb.Config{Address: l.server.Addr(), Password: "wrong-word"})
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.NotContains(t, err.Error(), "wrong-word")

	_, err = tidb.Open(within(t), tidb.Config{
		Address: "127.0.0.1:1", Reach: func(context.Context, string) (net.Conn, error) { return nil, errors.New("no way") },
	})
	require.Error(t, err)
	require.ErrorContains(t, err, "no way")

	l.server.Close()
	_, err = tidb.Open(within(t), tidb.Config{Address: l.server.Addr(), Password: "secret-word"})
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
}
