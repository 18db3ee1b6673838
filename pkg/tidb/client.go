package tidb

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/reach"
)

// Config is how to reach a TiDB server.
type Config struct {
	Address  string // host:port of its SQL port
	User     string // "" is root
	Password string
	TLS      *tls.Config // nil is plain text
	// Reach connects to the address; nil dials directly.
	Reach reach.Dial
}

const (
	dialTimeout = 10 * time.Second
	// connections bounds those that are open at a time: checks are made one after another.
	connections = 4
)

// Client is the adapter: it implements Database. It is safe for concurrent use.
type Client struct {
	admin   *sql.DB // for ADMIN statements, which read what is there now
	reading *sql.DB // whose sessions read at one timestamp and cannot write
	address string
	version string
}

var _ Database = (*Client)(nil)

// Open connects and fixes the timestamp at which Query reads. What is no TiDB is refused. Close ends the client.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	c := &Client{address: cfg.Address}
	var err error
	if c.admin, err = pool(cfg, nil); err != nil {
		return nil, err
	}
	ts, err := c.start(ctx)
	if err == nil {
		// TiDB refuses writes in a session with a snapshot. Its READ ONLY transactions are none: TiDB refuses the
		// words, or, if it is configured to take them, ignores them.
		c.reading, err = pool(cfg, map[string]string{"tidb_snapshot": fmt.Sprintf("'%d'", ts)})
	}
	if err != nil {
		c.Close()
		return nil, translate(ctx, err, "connect to TiDB", cfg.Address)
	}
	return c, nil
}

// pool makes connections when they are needed, with these session variables.
func pool(cfg Config, variables map[string]string) (*sql.DB, error) {
	conf := mysql.NewConfig()
	conf.Net, conf.Addr, conf.User, conf.Passwd = "tcp", cfg.Address, cmp.Or(cfg.User, "root"), cfg.Password
	conf.TLS, conf.Params, conf.Timeout = cfg.TLS, variables, dialTimeout
	conf.Logger = log.New(io.Discard, "", 0) //nolint:forbidigo // it would write to stderr; every error is returned
	if cfg.Reach != nil {
		conf.DialFunc = func(ctx context.Context, _, address string) (net.Conn, error) {
			return cfg.Reach(ctx, address)
		}
	}
	connector, err := mysql.NewConnector(conf)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "connect to TiDB", cfg.Address)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	return db, nil
}

// start reads the server's version and a timestamp.
func (c *Client) start(ctx context.Context) (ts uint64, err error) {
	if err := c.admin.QueryRowContext(ctx, "SELECT VERSION()").Scan(&c.version); err != nil {
		return 0, err
	}
	if !strings.Contains(c.version, "TiDB") {
		return 0, failure.New(failure.Usage, "connect to TiDB", c.address, "it is no TiDB but %s",
			failure.Line(c.version))
	}
	tx, err := c.admin.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, "SELECT @@tidb_current_ts").Scan(&ts)
	if err == nil && ts == 0 { // as a snapshot it would mean none, and the sessions could write
		err = failure.New(failure.Unready, "connect to TiDB", c.address, "a transaction of it has no timestamp")
	}
	return ts, errors.Join(err, tx.Rollback())
}

// Version is the server's.
func (c *Client) Version() string { return c.version }

// Close ends all connections.
func (c *Client) Close() {
	for _, db := range []*sql.DB{c.admin, c.reading} {
		if db != nil {
			_ = db.Close() // nothing was written
		}
	}
}

// Rest stops TTL and automatic ANALYZE in the whole cluster, which must be one that no one else uses.
func (c *Client) Rest(ctx context.Context) error {
	var all []error
	for _, name := range []string{"tidb_ttl_job_enable", "tidb_enable_auto_analyze"} {
		_, err := c.admin.ExecContext(ctx, "SET GLOBAL "+name+" = OFF")
		all = append(all, translate(ctx, err, "set", name))
	}
	return errors.Join(all...)
}

// ownSchemas are TiDB's, and those of its tools.
const ownSchemas = "'mysql', 'information_schema', 'performance_schema', 'metrics_schema', 'inspection_schema', " +
	"'sys', 'lightning_task_info', 'lightning_metadata', 'tidb_cdc', '__tidb_br_temporary_mysql'"

// Tables implements Database.
func (c *Client) Tables(ctx context.Context) ([]Table, error) {
	rows, err := c.query(ctx, c.reading, "SELECT table_schema, table_name FROM information_schema.tables "+
		"WHERE table_type = 'BASE TABLE' AND LOWER(table_schema) NOT IN ("+ownSchemas+") "+
		"ORDER BY table_schema, table_name", maxTables+1)
	if err != nil {
		return nil, translate(ctx, err, "list tables", c.address)
	}
	if len(rows) > maxTables {
		return nil, failure.New(failure.Unready, "list tables", c.address, "there are more than %d", maxTables)
	}
	out := make([]Table, 0, len(rows))
	for _, r := range rows {
		out = append(out, Table{Schema: r[0].Text, Name: r[1].Text})
	}
	return out, nil
}

// maxTables keeps a list in memory; TiDB itself is supported up to a million.
const maxTables = 1_000_000

// CheckTable implements Database.
func (c *Client) CheckTable(ctx context.Context, t Table) error {
	_, err := c.admin.ExecContext(ctx, "ADMIN CHECK TABLE "+quoted(t))
	return translate(ctx, err, "check table", t.String())
}

// Checksum implements Database.
func (c *Client) Checksum(ctx context.Context, t Table) (sum Checksum, err error) {
	var schema, name string
	err = c.admin.QueryRowContext(ctx, "ADMIN CHECKSUM TABLE "+quoted(t)).
		Scan(&schema, &name, &sum.CRC64XOR, &sum.KVs, &sum.Bytes)
	return sum, translate(ctx, err, "checksum table", t.String())
}

// What a statement has to begin with, and what it must not contain: a file that the server writes, and comments that
// TiDB executes. What is left TiDB itself refuses if it writes to a table.
var (
	reads    = regexp.MustCompile(`(?is)^[\s(]*(select|with|table|values)\b`)
	executes = regexp.MustCompile(`(?is)\binto\s+(outfile|dumpfile)\b|/\*T?!`)
)

// Query implements Database.
func (c *Client) Query(ctx context.Context, statement string, rows int) ([][]Cell, error) {
	if !reads.MatchString(statement) || executes.MatchString(statement) {
		return nil, failure.New(failure.Usage, "run statement", "",
			"want one that begins with SELECT, WITH, TABLE or VALUES, and writes nothing").WithHint(hintStatement)
	}
	out, err := c.query(ctx, c.reading, statement, rows)
	return out, translate(ctx, err, "run statement", "")
}

func (c *Client) query(ctx context.Context, db *sql.DB, statement string, limit int) (out [][]Cell, err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for len(out) < limit && rows.Next() {
		cells, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range cells {
			into[i] = &cells[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make([]Cell, len(cells))
		for i, cell := range cells {
			row[i] = Cell{Text: cell.String, Null: !cell.Valid}
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// quoted is the table's name in a statement.
func quoted(t Table) string { return quote(t.Schema) + "." + quote(t.Name) }

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
