package tidbtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/server"

	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// Config is what a server is of. Source is required.
type Config struct {
	Source Source
	// Version is what VERSION() answers; "" is that of TiDB 8.5.
	Version string
	// User and Password are those of the one user; "" is root without a password.
	User, Password string
	Faults         *fault.Plan
}

// defaultVersion is what a TiDB answers by itself.
const defaultVersion = "8.0.11-TiDB-v8.5.0"

// Server is the stand-in. It is safe for concurrent use.
type Server struct {
	cfg      Config
	listener net.Listener
	ctx      context.Context // the life of the server, which ends what its sessions wait for
	end      context.CancelFunc
	wg       sync.WaitGroup

	mu         sync.Mutex
	open       map[net.Conn]bool
	statements []string
	globals    map[string]string
}

// Start serves on loopback until Close.
func Start(cfg Config) (*Server, error) {
	if cfg.Version == "" {
		cfg.Version = defaultVersion
	}
	if cfg.User == "" {
		cfg.User = "root"
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start TiDB: %w", err)
	}
	s := &Server{cfg: cfg, listener: listener, open: map[net.Conn]bool{}, globals: newGlobals()}
	s.ctx, s.end = context.WithCancel(context.Background())
	s.wg.Go(s.accept)
	return s, nil
}

// Addr is where it serves.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Statements are all that were sent, in the order in which they came.
func (s *Server) Statements() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.statements...)
}

// Close ends all sessions and waits for them.
func (s *Server) Close() {
	s.end()
	_ = s.listener.Close() // it only listens
	s.mu.Lock()
	for conn := range s.open {
		_ = conn.Close() // the other side sees it
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.open[conn] = true
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(conn)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.open, conn)
			_ = conn.Close() // the other side sees it
		})
	}
}

// serve handles one connection. A session's context ends with the server alone: a client that goes away is seen when it is
// answered, as by TiDB.
func (s *Server) serve(conn net.Conn) {
	if s.ctx.Err() != nil || s.suffer(s.ctx, s.cfg.Faults.At("tidb.Connect")) != nil {
		return
	}
	protocol := server.NewServer(s.cfg.Version, mysql.DEFAULT_COLLATION_ID, mysql.AUTH_NATIVE_PASSWORD, nil, nil)
	c, err := protocol.NewConn(conn, s.cfg.User, s.cfg.Password, &handler{conn: conn, session: session{server: s}})
	if err != nil {
		return
	}
	for !c.Closed() && c.HandleCommand() == nil {
	}
}

// errLost ends a connection without an answer.
var errLost = errors.New("the connection is lost")

// suffer applies a fault at a point before the call; After is up to the caller.
func (s *Server) suffer(ctx context.Context, strike *fault.Strike) error {
	if strike == nil {
		return nil
	}
	switch strike.Position {
	case fault.Before:
		number, err := strconv.ParseUint(strike.Code, 10, 16)
		if err != nil {
			return refusal(9005, "Region is unavailable")
		}
		return refusal(uint16(number), "injected error %d", number)
	case fault.Stall:
		<-ctx.Done()
		return errLost
	case fault.Slow:
		select {
		case <-time.After(strike.Delay):
		case <-ctx.Done():
			return errLost
		}
	case fault.After:
	}
	return nil
}

// handler is a session in the words of the protocol's library.
type handler struct {
	server.EmptyHandler
	conn    net.Conn
	session session
}

// UseDB takes any.
func (*handler) UseDB(string) error { return nil }

// HandleQuery runs a statement.
func (h *handler) HandleQuery(statement string) (*mysql.Result, error) {
	s := h.session.server
	statement = strings.Clone(statement) // the library uses its bytes again
	s.mu.Lock()
	s.statements = append(s.statements, statement)
	s.mu.Unlock()
	out, err := h.session.run(s.ctx, statement)
	var refused *sqlError
	switch {
	case errors.As(err, &refused):
		return nil, mysql.NewError(refused.number, refused.text)
	case errors.Is(err, errLost):
		return nil, errors.Join(err, h.conn.Close())
	case err != nil:
		return nil, mysql.NewError(mysql.ER_UNKNOWN_ERROR, err.Error())
	case out.columns == nil:
		return mysql.NewResultReserveResultset(0), nil
	}
	set, err := mysql.BuildSimpleTextResultset(out.columns, out.rows)
	if err != nil {
		return nil, err
	}
	return mysql.NewResult(set), nil
}
