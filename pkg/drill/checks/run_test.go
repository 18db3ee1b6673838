package checks_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tidb"
	"github.com/tisnap/tisnap/pkg/tidb/tidbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var backupAt = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// lab is a TiDB with tables t0 to t4 of ten rows each, one written every second until the backup.
type lab struct {
	data   *tidbtest.Memory
	faults *fault.Plan
	client *tidb.Client
	tables []*tidbtest.Table
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{data: &tidbtest.Memory{}, faults: &fault.Plan{}}
	for i := range 5 {
		table := &tidbtest.Table{
			ID: int64(100 + i), Schema: "shop", Name: "t" + strconv.Itoa(i), Key: "id", Columns: []string{"at"}, Index: "at",
		}
		l.tables = append(l.tables, table)
		made, err := table.Create()
		require.NoError(t, err)
		l.data.Write(made)
		for id := range int64(10) {
			at := backupAt.Add(time.Duration(id-9) * time.Second)
			put, err := table.Put(id, nil, map[string]string{"at": strconv.FormatInt(at.Unix(), 10)})
			require.NoError(t, err)
			l.data.Write(put)
		}
	}
	server, err := tidbtest.Start(tidbtest.Config{Source: l.data, Faults: l.faults})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	l.client, err = tidb.Open(within(t), tidb.Config{Address: server.Addr()})
	require.NoError(t, err)
	t.Cleanup(l.client.Close)
	return l
}

// within bounds a test's calls.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// loseEntry removes one of a table's entries.
func (l *lab) loseEntry(i int) {
	table := l.tables[i]
	c := table.Remove(0, map[string]string{"at": strconv.FormatInt(backupAt.Unix()-9, 10)})
	delete(c, slices.MaxFunc([]string{keys(c)[0], keys(c)[1]}, strings.Compare)) // the row's, as _r is behind _i
	l.data.Write(c)
}

func keys(c tidbtest.Change) (out []string) {
	for k := range c {
		out = append(out, k)
	}
	return out
}

func options() checks.Options {
	return checks.Options{BackupTS: cluster.MakeTS(backupAt, 0), Budget: 30 * time.Second, Each: 20 * time.Second}
}

func statements(t *testing.T, text string) []checks.Statement {
	t.Helper()
	out, err := checks.ReadFile([]byte(text), "checks.yaml")
	require.NoError(t, err)
	return out.Statements
}

const good = `
checks:
- {name: heartbeat, sql: SELECT MAX(at) FROM shop.t0, within: 5s}
- {name: rows, sql: SELECT COUNT(*) FROM shop.t1, expect: "10"}
- {name: none of the future, sql: SELECT id FROM shop.t2 WHERE at > 1800000000, empty: true}
`

func TestRun_AllPass(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	o := options()
	o.Statements, o.AllTables, o.Sums = statements(t, good), true, map[tidb.Table]tidb.Checksum{}
	t3 := tidb.Table{Schema: "shop", Name: "t3"}
	sum, err := l.client.Checksum(within(t), t3)
	require.NoError(t, err)
	o.Sums[t3] = sum
	r, err := checks.Run(within(t), l.client, o)
	require.NoError(t, err)
	require.Equal(t, checks.Passed, r.Outcome, "%+v", r)
	require.Equal(t, 3, r.Count(checks.OfStatement, checks.Passed))
	require.Equal(t, 1, r.Count(checks.OfChecksum, checks.Passed))
	require.Equal(t, 5, r.Count(checks.OfTable, checks.Passed))
	require.Equal(t, 5, r.Tables)
}

func TestRun_TheDataAreNotAsTheyShouldBe_Failed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		text, why string
	}{
		"a canary that is too old": {`{name: c, sql: SELECT MIN(at) FROM shop.t0, within: 8s}`,
			"9s older than the backup's timestamp, at most 8s are allowed"},
		"a canary of after the backup": {`{name: c, sql: SELECT COUNT(*) FROM shop.t0 WHERE at < 0, expect: "1"}`,
			"not what is expected"},
		"another value":     {`{name: c, sql: SELECT COUNT(*) FROM shop.t0, expect: "11"}`, "its answer is not what is expected"},
		"no value":          {`{name: c, sql: SELECT MAX(at) FROM shop.t0 WHERE id = 77, within: 8s}`, "not a Unix time"},
		"several rows":      {`{name: c, sql: SELECT at FROM shop.t0, expect: "10"}`, "is not one value"},
		"forbidden rows":    {`{name: c, sql: SELECT at FROM shop.t0, empty: true}`, "must not be there"},
		"a table that lost": {`{name: c, sql: SELECT at FROM shop.lost, empty: true}`, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.Statements = statements(t, "checks: ["+row.text+"]")
			r, err := checks.Run(within(t), newLab(t).client, o)
			require.NoError(t, err)
			require.Equal(t, checks.Failed, r.Outcome)
			require.Contains(t, r.Checks[0].Why, row.why)
		})
	}
}

// A row that is later than the backup is one that the flashback should have taken.
func TestRun_CanaryLaterThanTheBackup_Failed(t *testing.T) {
	t.Parallel()
	o := options()
	o.BackupTS = cluster.MakeTS(backupAt.Add(-time.Second), 0)
	o.Statements = statements(t, "checks: [{name: c, sql: SELECT MAX(at) FROM shop.t0, within: 1h}]")
	r, err := checks.Run(within(t), newLab(t).client, o)
	require.NoError(t, err)
	require.Equal(t, checks.Failed, r.Outcome)
	require.Contains(t, r.Checks[0].Why, "1s later than the backup's timestamp")
}

func TestRun_TableIsInconsistent_FailedByItAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.loseEntry(3)
	o := options()
	o.AllTables = true
	r, err := checks.Run(within(t), l.client, o)
	require.NoError(t, err)
	require.Equal(t, checks.Failed, r.Outcome)
	require.Equal(t, 4, r.Count(checks.OfTable, checks.Passed))
	for _, c := range r.Checks {
		require.Equal(t, c.Name == "shop.t3", c.Outcome == checks.Failed, "%+v", c)
	}
}

func TestRun_ChecksumDiffers_Failed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		table string
		sum   tidb.Checksum
	}{
		"other keys and values": {"t1", tidb.Checksum{CRC64XOR: 1, KVs: 20, Bytes: 2}},
		"the table is lost":     {"t9", tidb.Checksum{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options()
			o.Sums = map[tidb.Table]tidb.Checksum{{Schema: "shop", Name: row.table}: row.sum}
			r, err := checks.Run(within(t), newLab(t).client, o)
			require.NoError(t, err)
			require.Equal(t, checks.Failed, r.Outcome)
			require.NotEmpty(t, r.Checks[0].Why)
		})
	}
}

// Nothing that was not checked counts as good.
func TestRun_NothingChecked_Failed(t *testing.T) {
	t.Parallel()
	r, err := checks.Run(within(t), newLab(t).client, options())
	require.NoError(t, err)
	require.Equal(t, checks.Failed, r.Outcome)
	require.Contains(t, r.Why, "no check was asked for")

	o := options()
	o.Tables = 3
	r, err = checks.Run(within(t), none{}, o)
	require.NoError(t, err)
	require.Equal(t, checks.Failed, r.Outcome)
	require.Contains(t, r.Why, "no check of kind table was made")
}

// none is a database without tables.
type none struct{ tidb.Database }

func (none) Tables(context.Context) ([]tidb.Table, error) { return nil, nil }

func TestRun_OfTheSameSeed_ChoosesTheSame(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	chosen := map[string]bool{}
	for seed := range uint64(40) {
		o := options()
		o.Tables, o.Seed = 2, seed
		first, err := checks.Run(within(t), l.client, o)
		require.NoError(t, err)
		second, err := checks.Run(within(t), l.client, o)
		require.NoError(t, err)
		require.Len(t, first.Checks, 2)
		for i := range first.Checks {
			require.Equal(t, first.Checks[i].Name, second.Checks[i].Name)
		}
		require.Equal(t, seed, first.Seed)
		chosen[first.Checks[0].Name+first.Checks[1].Name] = true
	}
	require.Greater(t, len(chosen), 5, "seeds choose differently")
}

// A check that hangs ends, and leaves the time that is left to the others.
func TestRun_ACheckHangs_TimedOut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tidb.AdminCheckTable", Position: fault.Stall}))
	o := options()
	o.AllTables, o.Each = true, 300*time.Millisecond
	r, err := checks.Run(within(t), l.client, o)
	require.NoError(t, err)
	require.Equal(t, checks.TimedOut, r.Outcome)
	require.Equal(t, 1, r.Count(checks.OfTable, checks.TimedOut))
	require.Equal(t, 4, r.Count(checks.OfTable, checks.Passed))
}

// What the budget leaves no time for is reported as skipped.
func TestRun_BudgetEnds_TheRestIsSkipped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tidb.AdminCheckTable", Nth: 2, Position: fault.Stall}))
	o := options()
	o.AllTables, o.Budget = true, time.Second
	r, err := checks.Run(within(t), l.client, o)
	require.NoError(t, err)
	require.Equal(t, checks.TimedOut, r.Outcome)
	require.Equal(t, 3, r.Count(checks.OfTable, checks.Skipped))
	require.Len(t, r.Checks, 5)
}

// An error that passes is waited out; one of another kind is not the data's.
func TestRun_ErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		code  string
		times int
		want  checks.Outcome
	}{
		"a region has no leader for a moment": {"9005", 2, checks.Passed},
		"no privilege":                        {"1142", 1, checks.NotMade},
		"unknown":                             {"4711", 1, checks.NotMade},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			require.NoError(t, l.faults.Add(fault.Rule{Point: "tidb.AdminCheckTable", Code: row.code, Times: row.times}))
			o := options()
			o.Tables = 1
			r, err := checks.Run(within(t), l.client, o)
			require.NoError(t, err)
			require.Equal(t, row.want, r.Outcome, "%+v", r)
		})
	}
}

func TestRun_Cancelled_IsNoResult(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(within(t))
	require.NoError(t, l.faults.Add(fault.Rule{Point: "tidb.AdminCheckTable", Position: fault.Stall, Do: cancel}))
	o := options()
	o.AllTables = true
	_, err := checks.Run(ctx, l.client, o)
	require.ErrorIs(t, err, context.Canceled)
}

func TestReadFile_Refused(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"checks: []":                                                                   "it has none",
		"checks: [{sql: SELECT 1, empty: true}]":                                       "want a name and sql",
		"checks: [{name: a, sql: SELECT 1}]":                                           "exactly one of",
		"checks: [{name: a, sql: s, expect: '', empty: true}]":                         "exactly one of",
		"checks: [{name: a, sql: s, within: soon}]":                                    "want a duration",
		"checks: [{name: a, sql: s, empty: true, x: 1}]":                               "unknown field",
		"checks: [{name: a, sql: s, empty: true}, {name: a, sql: s, empty: true}]":     "used twice",
		"sums: [{table: rates, crc64xor: 1, kvs: 1, bytes: 1}]":                        "SCHEMA.NAME",
		"sums: [{table: shop.rates, crc64xor: 1, bytes: 1}]":                           "ADMIN CHECKSUM TABLE",
		"sums: [{table: a.b, crc64xor: 1, kvs: 1}, {table: a.b, crc64xor: 1, kvs: 1}]": "once",
	} {
		t.Run(fmt.Sprint(why, text), func(t *testing.T) {
			t.Parallel()
			_, err := checks.ReadFile([]byte(text), "file")
			require.ErrorContains(t, err, why)
		})
	}
}

// A checksum has more digits than a float64.
func TestReadFile_Sums_AreExact(t *testing.T) {
	t.Parallel()
	f, err := checks.ReadFile([]byte("sums: [{table: shop.a.b, crc64xor: 18446744073709551557, kvs: 80, bytes: 4012}]"), "file")
	require.NoError(t, err)
	want := tidb.Checksum{CRC64XOR: 18446744073709551557, KVs: 80, Bytes: 4012}
	require.Equal(t, map[tidb.Table]tidb.Checksum{{Schema: "shop", Name: "a.b"}: want}, f.Sums)
	require.Empty(t, f.Statements)
}
