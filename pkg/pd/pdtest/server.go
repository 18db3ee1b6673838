package pdtest

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server is the stand-in. It is safe for concurrent use.
type Server struct {
	cfg Config

	life     sync.Mutex // held while members start and stop
	handlers *inFlight

	mu        sync.Mutex
	members   []*member
	leader    int       // index into members, -1 while there is none
	electAt   time.Time // when the next leader may be elected
	readyAt   time.Time // when the leader answers
	disk      *disk
	mem       *memory
	calls     []string
	restarted bool   // some member was: see flowDigits
	hidden    []byte // a key whose region is in no list; nil hides none
}

// New makes a stand-in that does not listen yet.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	host, _, err := net.SplitHostPort(cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", cfg.Addr, err)
	}
	s := &Server{cfg: cfg, handlers: newInFlight(), leader: -1, disk: newDisk(cfg)}
	s.mem = newMemory(s.disk)
	for i := range cfg.Members {
		addr := cfg.Addr
		if i > 0 {
			addr = net.JoinHostPort(host, "0")
		}
		s.members = append(s.members, &member{server: s, index: i, addr: addr})
	}
	return s, nil
}

// Start starts all members that are not up. The first call fixes the ports; later ones listen on the same.
func (s *Server) Start() error {
	for i := range s.members {
		if err := s.StartMember(i); err != nil {
			return err
		}
	}
	return nil
}

// StartMember starts one member; starting one that is up does nothing.
func (s *Server) StartMember(i int) error {
	s.life.Lock()
	defer s.life.Unlock()
	m := s.members[i]
	if m.up() {
		return nil
	}
	again := m.rpc != nil
	if err := m.start(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.alive = true
	s.restarted = s.restarted || again
	if s.leader < 0 && s.electAt.IsZero() {
		s.electAt = s.now()
	}
	s.electLocked()
	return nil
}

// KillMember ends one member at once, as kill -9 does: connections break, and what it was leader of waits
// for an election. It does not wait for calls under way, so a fault may call it.
func (s *Server) KillMember(i int) {
	s.mu.Lock()
	m := s.members[i]
	m.alive = false
	if s.leader == i {
		s.leader = -1
		s.electAt = s.now()
		if len(s.members) > 1 {
			s.electAt = s.electAt.Add(s.cfg.ElectionTimeout)
		}
		s.forgetLocked()
	}
	s.mu.Unlock()
	s.life.Lock()
	defer s.life.Unlock()
	m.stop()
}

// Kill ends all members at once.
func (s *Server) Kill() {
	for i := range s.members {
		s.KillMember(i)
	}
}

// Close ends all members and waits for all calls under way.
func (s *Server) Close() {
	s.Kill()
	s.handlers.wait()
}

// Restart kills and starts all members on their ports. It keeps what etcd keeps and forgets the rest.
func (s *Server) Restart() error {
	s.Kill()
	return s.Start()
}

// TransferLeader makes another member that is up the leader; its memory starts empty.
func (s *Server) TransferLeader(to int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if to >= len(s.members) || !s.members[to].alive {
		return fmt.Errorf("member %d is not up", to)
	}
	if s.leader != to {
		s.forgetLocked()
		s.leader = to
	}
	return nil
}

// Leader is the index of the leading member, -1 if there is none now.
func (s *Server) Leader() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.electLocked()
	return s.leader
}

// URLs are the members' client URLs.
func (s *Server) URLs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	urls := make([]string, 0, len(s.members))
	for _, m := range s.members {
		urls = append(urls, m.url())
	}
	return urls
}

// Addrs are the host:port that the members listen on, whatever their URLs are.
func (s *Server) Addrs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	addrs := make([]string, 0, len(s.members))
	for _, m := range s.members {
		addrs = append(addrs, m.addr)
	}
	return addrs
}

// ClusterID is the id that every message carries.
func (s *Server) ClusterID() uint64 { return s.disk.clusterID }

// MutatingCalls lists the calls of clients over the network that changed PD, in order, as "PauseScheduler
// balance-leader-scheduler". What stores send (heartbeats, AllocID, TSO) is left out.
func (s *Server) MutatingCalls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

func (s *Server) record(call string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
}

func (s *Server) now() time.Time { return s.cfg.Clock.Now() }

// forgetLocked drops the leader's memory. Regions stay known, without leaders.
func (s *Server) forgetLocked() {
	s.mem = newMemory(s.disk)
	s.disk.regions.forgetLeaders()
}

// electLocked makes the first living member leader once the time has come and a majority is up.
func (s *Server) electLocked() {
	if s.leader >= 0 || s.electAt.IsZero() || s.now().Before(s.electAt) {
		return
	}
	alive := 0
	first := -1
	for i, m := range s.members {
		if m.alive {
			alive++
			if first < 0 {
				first = i
			}
		}
	}
	if alive*2 > len(s.members) {
		s.leader = first
		s.readyAt = s.now().Add(s.cfg.StartDelay)
	}
}

// serving is nil if some leader serves. Calls in process ask it; those over the network ask servingBy.
func (s *Server) servingLocked() error {
	s.electLocked()
	if s.leader < 0 {
		return status.Error(codes.Unavailable, "connection error: desc = \"transport: Error while dialing: connect: connection refused\"")
	}
	if s.now().Before(s.readyAt) {
		return status.Error(codes.Unavailable, "[PD:server:ErrServerNotStarted]server not started")
	}
	return nil
}

// lock takes the state for one call, or returns why no member serves. The caller unlocks if there is no error.
func (s *Server) lock() error {
	s.mu.Lock()
	if err := s.servingLocked(); err != nil {
		s.mu.Unlock()
		return err
	}
	return nil
}
