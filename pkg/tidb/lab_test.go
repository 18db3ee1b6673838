package tidb_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tidb"
	"github.com/tisnap/tisnap/pkg/tidb/tidbtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var accounts = &tidbtest.Table{ID: 101, Schema: "bank", Name: "accounts", Key: "id", Columns: []string{"owner", "balance"}, Index: "owner"}

// lab is a TiDB with one table of three rows, and a client that came when they were there.
type lab struct {
	data   *tidbtest.Memory
	faults *fault.Plan
	server *tidbtest.Server
	client *tidb.Client
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{data: &tidbtest.Memory{}, faults: &fault.Plan{}}
	l.create(t, accounts)
	l.create(t, &tidbtest.Table{ID: 1, Schema: "mysql", Name: "user", Key: "id"})
	for i, owner := range []string{"ann", "bob", "cid"} {
		l.put(t, int64(i), nil, row(owner, "100"))
	}
	var err error
	l.server, err = tidbtest.Start(tidbtest.Config{Source: l.data, Faults: l.faults, Password: "secret-word"})
	require.NoError(t, err)
	t.Cleanup(l.server.Close)
	l.client = l.open(t)
	return l
}

func row(owner, balance string) map[string]string {
	return map[string]string{"owner": owner, "balance": balance}
}

func (l *lab) create(t *testing.T, table *tidbtest.Table) {
	t.Helper()
	c, err := table.Create()
	require.NoError(t, err)
	l.data.Write(c)
}

func (l *lab) put(t *testing.T, id int64, old, now map[string]string) {
	t.Helper()
	c, err := accounts.Put(id, old, now)
	require.NoError(t, err)
	l.data.Write(c)
}

func (l *lab) open(t *testing.T) *tidb.Client {
	t.Helper()
	client, err := tidb.Open(within(t), tidb.Config{Address: l.server.Addr(), Password: "secret-word"})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// within bounds a test's calls.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// sent are the statements that hold a word.
func (l *lab) sent(word string) (out []string) {
	for _, s := range l.server.Statements() {
		if strings.Contains(s, word) {
			out = append(out, s)
		}
	}
	return out
}
